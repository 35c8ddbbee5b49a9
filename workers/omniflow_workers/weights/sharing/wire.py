"""What owner and asker of a device's weights say to each other: one message, and then silence until either goes.

The address is an abstract Unix socket, named by user, device and fingerprint: who binds it is the owner, and the kernel
frees it with the owner's process, so that nothing is left behind by `kill -9`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence

from omniflow_workers.weights.sharing.memory import Exported

_LENGTH = struct.Struct("<I")
_CREDENTIALS = struct.Struct("iII")
_LONGEST = 1 << 16
_MOST_DESCRIPTORS = 16


def address_of(device: str, fingerprint: str) -> str:
    """`device`: a name that is equal in all processes of the host for one device, at most 40 bytes."""
    return f"\0omniflow-weights/{os.getuid()}/{device}/{fingerprint[:32]}"


def bind(address: str) -> socket.socket | None:
    """The owner's end; None when another process is the owner."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(64)
    except OSError:
        listener.close()
        return None
    return listener


def connect(address: str) -> socket.socket | None:
    """An asker's end; None when there is no owner (any more)."""
    asker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        asker.connect(address)
    except OSError:
        asker.close()
        return None
    return asker


def is_ours(peer: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, uid, _gid = _CREDENTIALS.unpack(found)
    return bool(uid == os.getuid())


def send(peer: socket.socket, exported: Exported, size: int) -> None:
    """The owner's only message. Raises `OSError` when the asker has gone."""
    text = json.dumps({"bytes": size, "handle": dict(exported.handle)}).encode()
    message = _LENGTH.pack(len(text)) + text
    if exported.descriptors:
        sent = socket.send_fds(peer, [message], list(exported.descriptors))
        message = message[sent:]
    peer.sendall(message)


def receive(peer: socket.socket) -> tuple[Exported, int] | None:
    """The message, and the size of the piece; None when the owner went before it was whole.

    Raises `TimeoutError` after the socket's time-out, and `ValueError` for what is no such message.
    """
    content, descriptors = b"", list[int]()
    whole = False
    try:
        while (missing := _missing(content)) > 0:
            part, found, _flags, _address = socket.recv_fds(peer, missing, _MOST_DESCRIPTORS)
            descriptors += found
            if not part:
                return None
            content += part
        told = json.loads(content[_LENGTH.size :])
        exported, size = Exported(dict(told["handle"]), tuple(descriptors)), int(told["bytes"])
        whole = True
        return exported, size
    except (KeyError, TypeError) as error:
        raise ValueError(f"no such message: {error}") from error
    except ConnectionError:
        return None
    finally:
        if not whole:
            close_all(descriptors)


def close_all(descriptors: Sequence[int]) -> None:
    """Closes descriptors that were received."""
    for descriptor in descriptors:
        os.close(descriptor)


def _missing(content: bytes) -> int:
    if len(content) < _LENGTH.size:
        return _LENGTH.size - len(content)
    (length,) = _LENGTH.unpack(content[: _LENGTH.size])
    if length > _LONGEST:
        raise ValueError(f"a message of {length} bytes")
    return int(_LENGTH.size + length - len(content))
