"""A member of a pool: what it has, and what it says and does when it hears something. Pure state, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omniflow_core import PageAllocator, PageError
from omniflow_workers.pools.reading import Read, Reads
from omniflow_workers.pools.shape import PoolShape
from omniflow_workers.pools.wire import Kind, Message, in_parts, say


class ExtentLocks(Protocol):
    """The kernel's word on who allocates from an extent (`PoolLocks`)."""

    def take_extent(self, extent: int) -> bool: ...
    def let_go_of_extent(self, extent: int) -> None: ...


class Member:
    """One owner. Each method returns what must be sent to the keeper, in order, before anything else is."""

    def __init__(
        self,
        owner: int,
        arena: tuple[int, int],
        shape: PoolShape,
        allocator: PageAllocator,
        locks: ExtentLocks,
        limit: int,
    ) -> None:
        """`arena`: the arena's id; `limit`: extents that it may have at once."""
        self.owner = owner
        self.shape = shape
        self.limit = limit
        self.extents: set[int] = set()
        self.withheld: set[int] = set()
        self.reads = Reads()
        self.asking = False
        """Whether a WANT has not been answered."""
        self.missing = False
        """Whether the pool had nothing left, as far as is known."""
        self.part: int | None = None
        """Extents that it may keep while others lack some; None: none lacks any, as far as is known."""
        self.claiming = False
        """Whether a claim has not been taken in: no read may begin that is not in it."""
        self.alone = False
        """Whether its book cannot be trusted, or is another pool's: it goes on with the extents that it has. It claims
        them from every keeper, as any book needs to know of them, and asks for no more."""
        self.refused = False
        """Whether a keeper said so: it never takes a keeper's place, then."""
        self.in_vain = False
        """Whether somebody waited for the keeper of a new book in vain, which has still not taken its claim in."""
        self._arena = arena
        self._allocator = allocator
        self._locks = locks

    @property
    def enough(self) -> int:
        """Extents that it keeps when it has nothing to do."""
        return self.limit // 4 if self.part is None else min(self.part, self.limit // 4)

    @property
    def may_ask(self) -> bool:
        return not (self.asking or self.missing or self.alone or self.claiming) and len(self.extents) < self.limit

    def want(self, pages: int) -> list[Message]:
        """Enough extents for so many free pages, as far as the limit allows; a quarter of that at least, so that runs
        find consecutive pages."""
        lacking = -(-max(0, pages - self._allocator.free_pages) // self.shape.extent_pages)
        count = min(max(lacking, self.limit // 4), self.limit - len(self.extents)) if lacking else 0
        if count <= 0 or not self.may_ask:
            return []
        self.asking = True
        return [say(Kind.WANT, count)]

    def give_back(self, keep: int) -> list[Message]:
        """Whole free extents, but for `keep` of all that it has, from the last one on."""
        if self.claiming:
            return []
        said = []
        for extent in sorted(self.extents, reverse=True):
            if len(self.extents) <= keep:
                break
            pages = self.shape.pages_of(extent)
            try:
                self._allocator.retire(pages.start, pages.stop)
            except PageError:  # something in it is held
                continue
            self.extents.discard(extent)
            self.withheld.difference_update(pages)
            self._locks.let_go_of_extent(extent)
            said.append(say(Kind.GIVE_BACK, extent))
        if said:
            self.part = None
        return said

    def heard(self, message: Message, now: int) -> list[Message]:
        numbers = message.numbers
        match message.kind:
            case Kind.GRANTED:
                self._granted(numbers[0], set(numbers[1:]))
            case Kind.ANSWERED:
                self.asking = False
                self.missing = numbers[0] > 0
            case Kind.MORE:
                self.missing = False
            case Kind.RETURNED:
                self._returned(numbers)
            case Kind.DIED:
                return self._died(numbers[0], now, asked=bool(numbers[1]))
            case Kind.LEASES:
                return self.reads.named(numbers)
            case Kind.WANTED:
                self.part = numbers[0]
            case Kind.REFUSED:
                self.alone, self.refused, self.claiming, self.in_vain = True, True, False, False
            case Kind.RESTORED:
                self.claiming = self.in_vain = False
                self.reads.restored(numbers[0], numbers[1:])
            case _:
                raise ValueError(f"{message.kind.name} from a keeper")
        return []

    def claim(self, now: int) -> list[Message]:
        """What it says to a new keeper."""
        self.asking = self.missing = False
        self.claiming = True
        claims = [*in_parts(Kind.CLAIM, sorted(self.extents), (self.owner, *self._arena))]
        return [
            *(claims or [say(Kind.CLAIM, self.owner, *self._arena)]),
            *in_parts(Kind.WITHHELD, sorted(self.withheld)),
            *self.reads.claim(now),
            say(Kind.CLAIMED),
        ]

    def begin_read(self, owner: int, pages: NDArray[np.uint32], until: int) -> Read:
        return self.reads.begin(owner, pages, until)

    def check(self) -> None:
        """Verifies what must hold at any time. Raises `AssertionError`, or `CorruptState` from the core."""
        self._allocator.check()
        own = self._allocator.counters()["own"]
        assert own + len(self.withheld) == len(self.extents) * self.shape.extent_pages
        assert all(self.shape.extent_of(page) in self.extents for page in self.withheld)

    def _granted(self, extent: int, withheld: set[int]) -> None:
        if not self._locks.take_extent(extent):
            # No book that is right grants it: what is another's stays so.
            raise RuntimeError(
                f"extent {extent} was granted to owner {self.owner}, and another process allocates from it"
            )
        pages = self.shape.pages_of(extent)
        self.extents.add(extent)
        self.withheld |= withheld
        for start, stop in _runs(page for page in pages if page not in withheld):
            self._allocator.adopt(start, stop)

    def _returned(self, pages: Iterable[int]) -> None:
        for page in pages:
            if page in self.withheld:  # else its extent went back meanwhile
                self.withheld.discard(page)
                self._allocator.adopt(page, page + 1)

    def _died(self, owner: int, now: int, *, asked: bool) -> list[Message]:
        self._allocator.drop_holder(owner)
        if asked:
            return self.reads.report(owner, now)
        self.reads.died(owner)
        return []


def _runs(pages: Iterable[int]) -> list[tuple[int, int]]:
    """Rising pages as (start, stop) of consecutive ones."""
    runs: list[tuple[int, int]] = []
    for page in pages:
        if runs and runs[-1][1] == page:
            runs[-1] = (runs[-1][0], page + 1)
        else:
            runs.append((page, page + 1))
    return runs
