"""How much of a job's results a client takes in before they are read (rule 10)."""

from dataclasses import dataclass
from typing import Self

from omniflow.errors import InvalidArgument

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Extent:
    """So many frames and so many bytes of payloads."""

    frames: int
    bytes: int

    @classmethod
    def window(cls, frames: int, size: int) -> Self:
        """A window as an application gives it. Raises `InvalidArgument`."""
        for field, value in (("window_frames", frames), ("window_bytes", size)):
            if value < 1:
                cure = "leave at least 1: what is larger than the window still comes, alone"
                raise InvalidArgument(f"{field} is {value}", field=field, cure=cure)
        return cls(frames, size)


DEFAULT = Extent(4096, 4 * MEBIBYTE)


class Inflow:
    """One result of one job: what has come, what was read, and how far it may come.

    Frames are read in the order in which they came. What `release` gave free counts as read before it is.
    """

    __slots__ = (
        "_base",
        "_bytes",
        "_frames",
        "_half",
        "_read",
        "_read_bytes",
        "_taken",
        "_tell_at",
        "_tell_at_bytes",
        "_window",
        "unread",
    )

    def __init__(self, window: Extent) -> None:
        self._window = window
        self._half = Extent(max(1, window.frames // 2), max(1, window.bytes // 2))
        # All in all; `_base`: before the stream that brings it now.
        self._frames = self._bytes = 0
        self._read = self._read_bytes = 0
        self._taken = 0
        self._base = Extent(0, 0)
        self._tell_at, self._tell_at_bytes = self._half.frames, self._half.bytes
        self.unread = False
        """What the scheduler was told of that."""

    @property
    def is_full(self) -> bool:
        """Nothing more may come before something is read."""
        window = self._window
        return self._frames - self._read >= window.frames or self._bytes - self._read_bytes >= window.bytes

    @property
    def is_spent(self) -> bool:
        """All that the scheduler knows may come has come."""
        frames, size = self._tell_at - self._half.frames, self._tell_at_bytes - self._half.bytes
        return self._frames - frames >= self._window.frames or self._bytes - size >= self._window.bytes

    @property
    def is_due(self) -> bool:
        """Half a window was read since the scheduler heard of it."""
        return self._read >= self._tell_at or self._read_bytes >= self._tell_at_bytes

    def come(self, size: int) -> None:
        """A frame has."""
        self._frames += 1
        self._bytes += size

    def take(self, size: int) -> bool:
        """A frame was handed out. Whether the scheduler has to hear of it."""
        self._taken += 1
        if self._taken <= self._read:
            return False
        self._read += 1
        self._read_bytes += size
        return self.is_due

    def release(self) -> None:
        """Whoever waits wants all of it."""
        self._read, self._read_bytes = self._frames, self._bytes

    def told(self) -> Extent:
        """How far it may come, from the beginning of the stream that brings it; the scheduler hears it now."""
        half, window, base = self._half, self._window, self._base
        self._tell_at, self._tell_at_bytes = self._read + half.frames, self._read_bytes + half.bytes
        frames, size = self._read + window.frames - base.frames, self._read_bytes + window.bytes - base.bytes
        return Extent(max(0, frames), max(0, size))

    def resume(self) -> None:
        """Another stream brings the rest, and its scheduler knows nothing of what was told."""
        self._base = Extent(self._frames, self._bytes)
        self.unread = False
