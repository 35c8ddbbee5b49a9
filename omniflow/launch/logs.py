"""One log file a process. What it writes comes through a pipe, so that a full disk stops neither it nor us."""

import asyncio
import os
from collections import deque
from pathlib import Path

_CHUNK = 65_536
_TAIL_BYTES = 8_192


class LogPump:
    """Copies a process's output into its log file; what the disk refuses is dropped and counted.

    The last lines are kept in memory too, for error messages.
    """

    def __init__(self, path: Path, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.path = path
        self.dropped_bytes = 0
        self._max_bytes = max_bytes
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._file = -1
        self._written = 0

    def attach(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        """Copies from `pipe`, which is ours from now on, until its end."""
        os.set_blocking(pipe, False)
        loop.add_reader(pipe, self._copy, loop, pipe)

    def detach(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        """Copies what is left and closes the pipe, which a grandchild may still hold open."""
        if loop.remove_reader(pipe):
            while self._read(pipe):
                pass
            os.close(pipe)

    def tail(self, lines: int = 15) -> str:
        """The last lines that the process wrote."""
        text = b"".join(self._tail).decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def write(self, data: bytes) -> None:
        """Appends to the file as far as the disk allows, and to the tail."""
        self._remember(data)
        rest = memoryview(data)
        try:
            while rest:
                if self._file < 0:
                    self._open()
                count = os.write(self._file, rest)
                self._written += count
                rest = rest[count:]
            if self._written > self._max_bytes:
                self._rotate()
        except OSError:
            self.dropped_bytes += len(rest)
            self.close()

    def close(self) -> None:
        """Closes the file; a later write opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _copy(self, loop: asyncio.AbstractEventLoop, pipe: int) -> None:
        if self._read(pipe) is False:
            loop.remove_reader(pipe)
            os.close(pipe)

    def _read(self, pipe: int) -> bool | None:
        """True: something came; None: nothing now; False: the other side has closed."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return None
        if not data:
            return False
        self.write(data)
        return True

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._written = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        """The full file becomes NAME.log.1, the one before it goes: a chatty process cannot fill the disk by itself."""
        self.close()
        self.path.replace(self.path.with_name(self.path.name + ".1"))

    def _remember(self, data: bytes) -> None:
        self._tail.append(data[-_TAIL_BYTES:])
        self._tail_bytes += len(self._tail[-1])
        while self._tail_bytes - len(self._tail[0]) >= _TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())
