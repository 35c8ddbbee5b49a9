"""Big values to and from serialized `omniflow.v1.Value` without a copy of their bytes.

protobuf copies every `bytes` field, twice on either way. So what lies around big data is written and read here, field
by field, and the data itself only pointed at. The rest, which is little, is left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from omniflow.types.buffers import Data

Encoded: TypeAlias = bytes | list[Data]
"""One payload: whole, or in parts that follow one another."""

ALIGNMENT = 64
"""Where numbers begin, counted from the start of the payload."""

_LENGTH = 5  # bytes of a length that is filled in later: a varint may be longer than it need be
_DELIMITED = 2


class DamagedError(ValueError):
    """These bytes are no protobuf message."""


class Writer:
    """Gathers the parts of one payload."""

    def __init__(self) -> None:
        self.parts: list[Data] = []
        self.size = 0

    def add(self, part: Data) -> None:
        """What follows next."""
        self.parts.append(part)
        self.size += len(part)

    def open(self, field: int) -> tuple[bytearray, int]:
        """Begins a message that is `field` of the one around it; `close` ends it."""
        length = bytearray(_LENGTH)
        self.add(bytes((_tag(field),)))
        self.parts.append(memoryview(length))
        self.size += _LENGTH
        return length, self.size

    def close(self, opened: tuple[bytearray, int]) -> None:
        """Fills in how long it has become."""
        length, start = opened
        length[:] = _long(self.size - start)

    def data(self, field: int, data: Data, padding: int | None = None) -> None:
        """A field of bytes; behind a field `padding` that is as long as it takes to align it."""
        if padding is not None:
            fill = -(self.size + 2 + 1 + _LENGTH) % ALIGNMENT
            self.add(bytes((_tag(padding), fill)) + bytes(fill))
        self.add(bytes((_tag(field),)) + _long(len(data)))
        self.add(data)


def joined(payload: Encoded) -> bytes:
    """It as one."""
    return payload if isinstance(payload, bytes) else b"".join(payload)


def fields(message: memoryview) -> Iterator[tuple[int, memoryview | None, memoryview]]:
    """(number, content, whole) of each field: `content` is None unless it has a length. Raises `DamagedError`."""
    at, end = 0, len(message)
    while at < end:
        start = at
        tag, at = _varint(message, at)
        wire_type = tag & 7
        content = None
        if wire_type == _DELIMITED:
            size, at = _varint(message, at)
            content = message[at : at + size]
            at += size
        elif wire_type == 0:
            _, at = _varint(message, at)
        elif wire_type == 1:
            at += 8
        elif wire_type == 5:
            at += 4
        else:
            raise DamagedError(f"a field of wire type {wire_type}")
        if at > end:
            raise DamagedError("a field is longer than its message")
        yield tag >> 3, content, message[start:at]


def split(message: memoryview, field: int) -> tuple[memoryview, bytes]:
    """The bytes of a field, the last one if it comes again, and everything else. Raises `DamagedError`."""
    found: memoryview = memoryview(b"")
    rest = bytearray()
    for number, content, whole in fields(message):
        if number == field:
            if content is None:
                raise DamagedError(f"field {field} has no length")
            found = content
        else:
            rest += whole
    return found, bytes(rest)


def _tag(field: int) -> int:
    return field << 3 | _DELIMITED


def _long(value: int) -> bytes:
    return bytes(
        (
            value & 0x7F | 0x80,
            value >> 7 & 0x7F | 0x80,
            value >> 14 & 0x7F | 0x80,
            value >> 21 & 0x7F | 0x80,
            value >> 28,
        )
    )


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(message):
            raise DamagedError("it is cut short")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DamagedError("a number has no end")
