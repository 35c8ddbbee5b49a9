"""What a member reads of other owners' pages, as it must be able to tell when one of them dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from omniflow_workers.pools.errors import OwnerGoneError
from omniflow_workers.pools.wire import MOST_NUMBERS, Kind, Message, say

_PART = MOST_NUMBERS - 2


@dataclass(eq=False, slots=True)
class Read:
    """A lease that `owner` has granted, on `pages` (shape (n,)), until `until` (`now_ms`).

    `leases`: those of the pool's book instead, once the owner is dead and this was reported; one for each part that
    fits into a message, 0 where the book has none.
    """

    owner: int
    pages: NDArray[np.uint32]
    until: int
    told: int
    """The end that the book knows, if it knows of it."""
    leases: list[int] = field(default_factory=list)

    def parts(self) -> Iterator[Message]:
        for start in range(0, len(self.pages), _PART):
            yield say(Kind.READ, self.owner, self.until, *self.pages[start : start + _PART].tolist())


class Reads:
    """All that one member reads. Pure state: what must be said is returned."""

    def __init__(self) -> None:
        self._of: dict[int, set[Read]] = {}
        self._dead: set[int] = set()
        self._newest = 0
        self._living: frozenset[int] = frozenset()
        """Of owners up to the newest: what the present book began with."""
        self._told: deque[Read] = deque()
        """Whose leases the keeper still has to name, in order."""

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def begin(self, owner: int, pages: NDArray[np.uint32], until: int) -> Read:
        """Raises `OwnerGoneError`: what was reported of it is all that is read of it."""
        if owner in self._dead or (owner <= self._newest and owner not in self._living):
            raise OwnerGoneError(owner)
        read = Read(owner, pages, until, until)
        self._of.setdefault(owner, set()).add(read)
        return read

    def renew(self, read: Read, until: int) -> list[Message]:
        """Its end has moved; once the owner is dead this moves it."""
        read.until = until
        return self._renewals(read)

    def end(self, read: Read) -> list[Message]:
        reads = self._of.get(read.owner, set())
        if read not in reads:
            return []
        reads.discard(read)
        if not reads:
            self._of.pop(read.owner, None)
        return self._ends(read)

    def report(self, dead: int, now: int) -> list[Message]:
        """All that is read of a dead owner. None of its leases is accepted from now on."""
        self._dead.add(dead)
        said = [*self._tell(self._of.get(dead, ()), now)]
        return [*said, say(Kind.REPORTED, dead)]

    def died(self, owner: int) -> None:
        """An owner of whom nothing can be read is dead."""
        self._dead.add(owner)

    def restored(self, newest: int, living: Iterable[int]) -> None:
        """There is a new book; of the owners so far, these live."""
        self._newest, self._living = newest, frozenset(living)
        self._dead = {owner for owner in self._dead if owner > newest}

    def claim(self, now: int) -> list[Message]:
        """All that is read of anyone, for a new book."""
        self._told.clear()
        for reads in self._of.values():
            for read in reads:
                read.leases.clear()
        return [*self._tell((read for reads in self._of.values() for read in reads), now)]

    def named(self, leases: tuple[int, ...]) -> list[Message]:
        """The keeper's leases of what was told, in order: what has changed since then follows."""
        said: list[Message] = []
        for lease in leases:
            read = self._told.popleft()
            read.leases.append(lease)
            if read not in self._of.get(read.owner, ()):
                said += self._ends(read)
            elif read.until != read.told:
                said += self._renewals(read)
        return said

    def _tell(self, reads: Iterable[Read], now: int) -> Iterator[Message]:
        for read in [each for each in reads if each.until > now]:
            read.told = read.until
            for part in read.parts():
                self._told.append(read)
                yield part

    @staticmethod
    def _renewals(read: Read) -> list[Message]:
        return [say(Kind.RENEW, lease, read.until) for lease in read.leases if lease]

    @staticmethod
    def _ends(read: Read) -> list[Message]:
        ended = [say(Kind.END, lease) for lease in read.leases if lease]
        read.leases.clear()
        return ended


class Reading:
    """Pages of another owner that are read in place. `end` it, or use it as a context manager: they may be handed out
    again then, if their owner is dead; if it lives, it has to be told itself."""

    def __init__(self, read: Read, renew: Callable[[Read, int], None], end: Callable[[Read], None]) -> None:
        self._read = read
        self._renew = renew
        self._end = end

    @property
    def owner(self) -> int:
        return self._read.owner

    @property
    def until(self) -> int:
        """When it ends by itself, by `now_ms`."""
        return self._read.until

    def renew(self, until: int) -> None:
        """The owner has renewed its lease; or it is dead, and this renews the one that the pool keeps in its place."""
        self._renew(self._read, until)

    def end(self) -> None:
        """Again: nothing."""
        self._end(self._read)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
