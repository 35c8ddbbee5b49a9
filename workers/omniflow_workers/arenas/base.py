"""What an arena is to those who compute on it, whatever the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from omniflow_core import ArenaLayout, HostArena

if TYPE_CHECKING:
    import torch


class DeviceUnavailableError(RuntimeError):
    """The device, its driver or what shares its memory is not there; the message says what is missing."""


class Arena(Protocol):
    """Memory of one device that several processes have in place.

    It lives while the arena, or any tensor over it, does in any process: the death of the one that made it changes
    nothing for the others.
    """

    @property
    def layout(self) -> ArenaLayout: ...

    @property
    def book(self) -> HostArena:
        """The generations of its pages, in the host's memory on every device: `book.allocator()` hands out pages,
        `book.verify_all` finds those that are stale."""

    def tensor(self, dtype: torch.dtype, shape: Sequence[int], offset: int = 0) -> torch.Tensor:
        """A contiguous tensor in place, `offset` bytes behind the start of page 0. Raises `OutOfBounds`."""

    def settle(self) -> None:
        """Returns once what this thread has queued on the device is done. Call it after the last write, before another
        process is told that a page is there; and after the last read, before a generation is checked."""

    def offered(self, name: str) -> tuple[str, HostArena, int | None]:
        """What `ArenaChannel.offer` takes to pass it on; the arena must live until that returns."""
