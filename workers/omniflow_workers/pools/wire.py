"""What the keeper of a pool's book and the pool's members say to each other: a kind and numbers, a message each.

Both are processes of one user on one host and of one version of this protocol (it is part of the address).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

MOST_NUMBERS = 900
"""Of one message: a channel carries 8,192 bytes."""


class Kind(IntEnum):
    """A member's messages, then the keeper's. In brackets: the numbers."""

    HELLO = 1
    """A process wants to be a member."""
    WANT = 2
    """[extents]"""
    GIVE_BACK = 3
    """[extent]: all of its pages are retired."""
    READ = 4
    """[owner, until, page...]: part of a report or a claim."""
    REPORTED = 5
    """[dead owner]: the READs before this are all that is read of it."""
    RENEW = 6
    """[lease, until]"""
    END = 7
    """[lease]"""
    CLAIM = 8
    """[owner, arena, arena, extent...]: a member whose keeper is gone says what it has. Perhaps several."""
    WITHHELD = 9
    """[page...]: of these extents, and not adopted."""
    CLAIMED = 10
    """That was all; the READs before this belong to it."""

    WELCOME = 32
    """[owner, pages, reserved, extent pages]: to HELLO, behind the arena."""
    REFUSED = 33
    """To CLAIM: the pool behind this address is another one."""
    GRANTED = 34
    """[extent, withheld page...]"""
    ANSWERED = 35
    """[extents that are missing]: the GRANTED before this answer a WANT."""
    MORE = 36
    """To whom extents are missing: some are free now."""
    RETURNED = 37
    """[page...]: withheld until now."""
    DIED = 38
    """[owner, whether a report is wanted]"""
    LEASES = 39
    """[lease or 0...]: of the READs that were sent, in their order."""
    WANTED = 40
    """[extents]: another member wants some and there are none, and this one has more than these, its part."""
    RESTORED = 41
    """[highest owner ever, living owner...]: to CLAIMED, behind its LEASES."""


@dataclass(frozen=True, slots=True)
class Message:
    kind: Kind
    numbers: tuple[int, ...] = ()

    def encode(self) -> bytes:
        return struct.pack(f"<B{len(self.numbers)}Q", self.kind, *self.numbers)

    @staticmethod
    def decode(payload: bytes) -> Message:
        """Raises `ValueError` for what is no message."""
        count, rest = divmod(len(payload) - 1, 8)
        if rest or count < 0:
            raise ValueError(f"a message of {len(payload)} bytes")
        kind, *numbers = struct.unpack(f"<B{count}Q", payload)
        return Message(Kind(kind), tuple(numbers))


def say(kind: Kind, *numbers: int) -> Message:
    return Message(kind, numbers)


def in_parts(kind: Kind, numbers: Sequence[int], head: tuple[int, ...] = ()) -> Iterator[Message]:
    """As many messages as `numbers` need, each beginning with `head`; none when there are none."""
    for start in range(0, len(numbers), MOST_NUMBERS):
        yield Message(kind, (*head, *numbers[start : start + MOST_NUMBERS]))
