"""Who lives, and who allocates from which extent, as the kernel knows it: locks on the memory of the pool's book.

A lock belongs to one opening of that memory. The kernel drops it when the last descriptor of the opening is closed,
`kill -9` included, when no thread of the process can write any more. So the book may be lost at any moment: what is
locked is somebody's.
"""

from __future__ import annotations

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi4x")  # of a 64-bit Linux: type, whence, start, length, process
_MEMBERS = 1 << 32
"""An extent's lock is the byte of its number; a member's is behind all of those, at the number of its owner."""
_END = (1 << 63) - 1


class PoolLocks:
    """One opening of the pool's memory. Not thread-safe."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: of the memory; it stays the caller's."""
        self._descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)

    def take_extent(self, extent: int) -> bool:
        """Whether it was nobody's; then it is this opening's."""
        return self._take(extent)

    def let_go_of_extent(self, extent: int) -> None:
        self._set(fcntl.F_UNLCK, extent)

    def be(self, owner: int) -> bool:
        """Is a living owner from now on, unless another one is it."""
        return self._take(_MEMBERS + owner)

    def lives(self, owner: int) -> bool:
        """Whether another opening is that owner."""
        return self._found(_MEMBERS + owner, 1) is not None

    def living(self) -> set[int]:
        """The owners that other openings are."""
        found: set[int] = set()
        gaps = [(_MEMBERS, _END)]
        while gaps:
            start, end = gaps.pop()
            lock = self._found(start, end - start)
            if lock is None:
                continue
            first, last = max(start, lock[0]), min(end, lock[1])
            # Locks of one opening side by side are one: an owner is a life of a process, but openings are few.
            found.update(byte - _MEMBERS for byte in range(first, last))
            gaps += [(a, b) for a, b in ((start, first), (last, end)) if a < b]
        return found

    def close(self) -> None:
        """Lets go of everything. Again: nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, byte: int) -> bool:
        try:
            self._set(fcntl.F_WRLCK, byte)
        except (BlockingIOError, PermissionError):  # POSIX allows either
            return False
        return True

    def _set(self, kind: int, byte: int) -> None:
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))

    def _found(self, start: int, length: int) -> tuple[int, int] | None:
        """Where a lock of another opening lies, that is within these bytes in part at least; None: there is none."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        kind, _, first, size, _ = _FLOCK.unpack(fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else (first, first + size if size else _END)
