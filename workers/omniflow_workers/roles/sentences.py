"""Sentences out of a stream of text pieces, each as soon as it is complete."""

from collections.abc import Callable, Iterable, Iterator

# Splits a text into its sentences, in order, each without the white space around it.
Splitter = Callable[[str], list[str]]


def sentences(pieces: Iterable[str], split: Splitter) -> Iterator[str]:
    """Yields each sentence once the next one has begun, and the rest at the end.

    Where a sentence ends is `split`'s to say: "Dr. Smith" is one only once "Smith" has come.
    """
    waiting = ""
    for piece in pieces:
        waiting += piece
        *complete, last = split(waiting) or [""]
        if complete:
            yield from complete
            waiting = waiting[waiting.rindex(last) :]
    yield from split(waiting)
