"""Pools that this process maps, as places where borrowed pages are read."""

from __future__ import annotations

from omniflow_core import HostArena
from omniflow_workers.pools import OwnerGoneError, PoolShare
from omniflow_workers.transfer.base import Generations, PageIds, Reading


class SharedPool:
    """`PagePool`: the pool of a device and layout. Its book keeps pages that are read here when their owner dies."""

    def __init__(self, share: PoolShare) -> None:
        self._share = share
        self._arena = share.arena
        self.id = share.arena.book.id

    def read(self, owner: int, pages: PageIds, until_ms: int, /) -> Reading | None:
        try:
            return self._share.reading(owner, pages, until_ms)
        except OwnerGoneError:
            return None

    def verify_all(self, pages: PageIds, generations: Generations, /) -> None:
        self._arena.settle()
        self._arena.book.verify_all(pages, generations)


class _NoReading:
    def renew(self, until_ms: int, /) -> None:
        """Nobody is told."""

    def end(self) -> None:
        """Nobody is told."""


class MappedArena:
    """`PagePool`: an arena without a book. What is read there may change as soon as its owner dies; `verify` finds
    it."""

    def __init__(self, arena: HostArena) -> None:
        self._arena = arena
        self.id = arena.id

    def read(self, owner: int, pages: PageIds, until_ms: int, /) -> Reading | None:
        return _NoReading()

    def verify_all(self, pages: PageIds, generations: Generations, /) -> None:
        self._arena.verify_all(pages, generations)
