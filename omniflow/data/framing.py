"""Messages over a socket, each behind its length. Used by one thread at a time; `hang_up` from any."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

_LENGTH = struct.Struct("<I")
_AT_ONCE = 256 * 1024

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Of a request or a reply: room for a lease on 100,000 pages. Who announces more is none of ours."""
MAX_GREETING_BYTES = 4 * 1024
"""Of the first message: until then anybody may be at the other end."""


class BadFrame(ValueError):  # noqa: N818
    """What came is no message of this protocol."""


class HungUp(ConnectionError):  # noqa: N818
    """The other side has closed the connection, or was never there."""


class Framed:
    """One end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._pending = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def buffered(self) -> bool:
        """Whether something has come that the descriptor does not tell of."""
        return bool(self._pending)

    @property
    def local_host(self) -> str:
        """The address by which the other side reached this one, or it the other; empty for Unix sockets."""
        name = self._socket.getsockname()
        return str(name[0]) if isinstance(name, tuple) else ""

    def send(self, message: bytes, patience: float | None) -> None:
        """Raises `HungUp`, and `TimeoutError` after `patience` seconds: then a part of it may be on its way, and the
        connection is to be closed."""
        self._socket.settimeout(patience)
        try:
            self._socket.sendall(_LENGTH.pack(len(message)) + message)
        except TimeoutError:
            raise
        except OSError as error:
            raise HungUp(str(error)) from error

    def receive(self, patience: float | None, *, limit: int = MAX_MESSAGE_BYTES, rest: float | None = None) -> bytes:
        """The next message. Waits `patience` seconds for its begin, and `rest` more for the rest (None: no such bound).

        Raises `HungUp`, `BadFrame`, and `TimeoutError`: a message that has begun may be received later.
        """
        if not self._pending:
            self._socket.settimeout(patience)
            self._pending = self._some()
        until = time.monotonic() + (rest if rest is not None else (patience if patience is not None else 1e9))
        self._fill(_LENGTH.size, until)
        (length,) = _LENGTH.unpack_from(self._pending)
        if length > limit:
            raise BadFrame(f"a message of {length} bytes is announced: at most {limit} are taken")
        end = _LENGTH.size + length
        self._fill(end, until)
        message, self._pending = self._pending[_LENGTH.size : end], self._pending[end:]
        return message

    def hang_up(self) -> None:
        """Ends the connection: whoever waits at either end hears of it. From any thread; `close` is still to come."""
        with contextlib.suppress(OSError):
            # The base class's: an SSLSocket's own would take its state away under the thread that reads.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Frees the descriptor; nobody may be using it."""
        self._socket.close()

    def _fill(self, size: int, until: float) -> None:
        """Waits until `size` bytes are there."""
        if len(self._pending) >= size:
            return
        parts = [self._pending]
        have = len(self._pending)
        try:
            while have < size:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the rest of a message does not come")
                self._socket.settimeout(left)
                parts.append(self._some())
                have += len(parts[-1])
        finally:
            self._pending = b"".join(parts)

    def _some(self) -> bytes:
        try:
            found = self._socket.recv(_AT_ONCE)
        except TimeoutError:
            raise
        except OSError as error:
            raise HungUp(str(error)) from error
        if not found:
            raise HungUp("the other side has closed the connection")
        return found
