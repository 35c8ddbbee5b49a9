"""A sequence of frames whose length nobody knows yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Stream(Protocol[T_co]):
    """What a streaming method takes and gives: iterate once, in order; the next frame may have to be waited for.

    Every iterator is one, so that a generator function may declare `-> Stream[Text]`.
    """

    def __iter__(self) -> Iterator[T_co]: ...
    def __next__(self) -> T_co: ...
