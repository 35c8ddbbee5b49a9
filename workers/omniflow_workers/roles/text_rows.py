"""The reading order of words found in a picture."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# How far, in heights of the smaller one, the middles of two words may lie apart and still stand in one row.
SAME_ROW = 0.5


@dataclass(frozen=True)
class Word:
    """Text with the box around it, in pixels."""

    text: str
    left: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        """Height of the box's middle."""
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        """At least a pixel, so that flat boxes compare."""
        return max(self.bottom - self.top, 1.0)


def word_of(box: Sequence[Sequence[float]], text: str) -> Word:
    """A word from its quadrilateral of four (x, y) corners."""
    xs, ys = [point[0] for point in box], [point[1] for point in box]
    return Word(text, left=min(xs), top=min(ys), bottom=max(ys))


def rows(words: Iterable[Word]) -> list[list[Word]]:
    """Rows from top to bottom, each from left to right."""
    found: list[list[Word]] = []
    for word in sorted(words, key=lambda one: one.middle):
        if found and _stands_in(word, found[-1]):
            found[-1].append(word)
        else:
            found.append([word])
    return [sorted(row, key=lambda one: one.left) for row in found]


def as_text(words: Iterable[Word], between: str = " ") -> str:
    """One line a row."""
    return "\n".join(between.join(word.text for word in row) for row in rows(words))


def _stands_in(word: Word, row: list[Word]) -> bool:
    last = row[-1]
    return abs(word.middle - last.middle) <= SAME_ROW * min(word.height, last.height)
