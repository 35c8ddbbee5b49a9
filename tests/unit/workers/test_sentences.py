"""Sentences leave a stream as soon as they are complete."""

import re
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from omniflow_workers.roles.sentences import sentences


def split(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]


def test_a_sentence_leaves_before_the_stream_has_ended() -> None:
    taken = []

    def pieces() -> Iterator[str]:
        for piece in ["The train", " leaves. ", "Plat", "form 7."]:
            taken.append(piece)
            yield piece

    assert next(sentences(pieces(), split)) == "The train leaves."
    assert taken == ["The train", " leaves. ", "Plat"]


def test_an_empty_stream_has_no_sentence() -> None:
    assert list(sentences([], split)) == []
    assert list(sentences([" ", "\n"], split)) == []


@given(st.lists(st.text(alphabet="ab .!?\n", max_size=6)))
def test_the_cut_of_the_pieces_does_not_matter(pieces: list[str]) -> None:
    assert list(sentences(pieces, split)) == split("".join(pieces))
