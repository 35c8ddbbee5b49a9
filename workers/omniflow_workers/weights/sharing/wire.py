"""What two workers that share a device's weights say to each other: one message, and then silence until either goes.

The address is an abstract Unix socket, named by user, device and fingerprint: who binds it hands the weights out, and
the kernel frees it with its process, so that nothing is left behind by `kill -9`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

_SIZE = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("iII")


def address_of(device: str, fingerprint: str) -> str:
    """`device`: a name that is equal in all processes of the host for one device, at most 45 bytes."""
    return f"\0omniflow-weights/{os.getuid()}/{device}/{fingerprint[:32]}"


def bind(address: str) -> socket.socket | None:
    """The end that hands out; None when another process has it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(64)
    except OSError:
        listener.close()
        return None
    return listener


def connect(address: str) -> socket.socket | None:
    """The end that asks; None when nobody hands out (any more)."""
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


def send(peer: socket.socket, descriptor: int, size: int) -> None:
    """The only message: a piece of memory. Raises `OSError` when the asker has gone."""
    socket.send_fds(peer, [_SIZE.pack(size)], [descriptor])


def receive(peer: socket.socket, size: int) -> int | None:
    """The descriptor of a piece of `size` bytes, the caller's; None when the other end went before it said so.

    Raises `TimeoutError` after the socket's time-out, and `ValueError` for another message.
    """
    if not is_ours(peer):
        raise ValueError("another user's process hands out weights")
    try:
        content, descriptors, _flags, _address = socket.recv_fds(peer, _SIZE.size, 4)
    except ConnectionError:
        return None
    if not content and not descriptors:
        return None
    if len(descriptors) != 1 or content != _SIZE.pack(size):
        _close_all(descriptors)
        raise ValueError(f"{len(descriptors)} descriptors for {content.hex()}, not 1 for {size} bytes")
    return descriptors[0]


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
