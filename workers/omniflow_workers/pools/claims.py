"""What the members of a pool claim to have, for a new book. Pure state."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from omniflow_workers.pools.wire import Kind, Message


@dataclass(slots=True)
class Claim:
    """Of one member. `reads`: (owner, pages, until), one for each message that told it."""

    owner: int
    extents: list[int] = field(default_factory=list)
    withheld: list[int] = field(default_factory=list)
    reads: list[tuple[int, list[int], int]] = field(default_factory=list)
    complete: bool = False

    def told(self) -> tuple[int, list[int], list[int], list[tuple[int, list[int], int]]]:
        """As `Extents.restore` takes it."""
        return self.owner, self.extents, self.withheld, self.reads


class Claims:
    """The claims that have come so far, by the connection that they came over."""

    def __init__(self, arena: tuple[int, int]) -> None:
        self._arena = arena
        self._claims: dict[int, Claim] = {}

    def heard(self, peer: int, message: Message) -> bool:
        """Whether it is the claim of a member of another pool."""
        numbers = message.numbers
        claim = self._claims.get(peer)
        if message.kind is Kind.CLAIM:
            if numbers[1:3] != self._arena:
                return True
            for other in [each for each, old in self._claims.items() if old.owner == numbers[0] and each != peer]:
                self.gone(other)
            claim = self._claims.setdefault(peer, Claim(numbers[0]))
            claim.extents += numbers[3:]
        elif claim is None:
            return False  # behind one of another pool
        elif message.kind is Kind.WITHHELD:
            claim.withheld += numbers
        elif message.kind is Kind.READ:
            claim.reads.append((numbers[0], list(numbers[2:]), numbers[1]))
        else:
            claim.complete = True
        return False

    def gone(self, peer: int) -> None:
        """The connection has gone; its member claims again over another one, if it lives."""
        self._claims.pop(peer, None)

    def complete(self, living: Set[int]) -> bool:
        """Whether all who live have made theirs, and nobody who is about to has not finished it."""
        finished = {claim.owner for claim in self._claims.values() if claim.complete}
        return living <= finished and all(claim.complete for claim in self._claims.values())

    def peers(self) -> list[int]:
        return list(self._claims)

    def of(self, peer: int) -> Claim:
        return self._claims[peer]
