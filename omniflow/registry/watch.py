"""A view of the keys under a prefix that follows etcd through breaks, restarts and compactions."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from omniflow.registry.connection import AsyncEtcd, Change, Compacted, WatchBroken
from omniflow.registry.errors import RegistryUnreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Put(Generic[T]):
    """The entry is there, new or changed."""

    name: str
    value: T
    revision: int


@dataclass(frozen=True, slots=True)
class Gone(Generic[T]):
    """The entry is no longer there. `last` is what it was."""

    name: str
    last: T
    revision: int


class Watch(Generic[T]):
    """An endless async iterator of `Put` and `Gone`, starting with a `Put` for every entry that is there.

    It never ends and never raises because of etcd: it waits with growing pauses (2 s at most) and goes on from the last
    revision, or compares a new listing with its view where that revision is no longer kept. Use it in one task.
    """

    def __init__(self, etcd: AsyncEtcd, prefix: str, decode: Callable[[bytes], T]) -> None:
        self.reachable = False
        self.synced = asyncio.Event()
        self.view: dict[str, T] = {}
        self._etcd = etcd
        self._prefix = prefix
        self._decode = decode
        self._revision = 0
        self._pause = FIRST_PAUSE

    async def __aiter__(self) -> AsyncIterator[Put[T] | Gone[T]]:
        must_list = True
        while True:
            try:
                if must_list:
                    for event in await self._list():
                        yield event
                    must_list = False
                    self.synced.set()
                async for changes in self._etcd.watch_prefix(self._prefix, self._revision + 1):
                    self._connected()
                    for event in self._apply(changes):
                        yield event
            except Compacted:
                log.info("%s: revision %d is compacted, listing again", self._prefix, self._revision)
                must_list = True
            except (WatchBroken, RegistryUnreachable) as error:
                await self._wait(error)

    def _connected(self) -> None:
        if not self.reachable:
            log.info("%s: watching from revision %d", self._prefix, self._revision)
        self.reachable = True
        self._pause = FIRST_PAUSE

    async def _wait(self, error: Exception) -> None:
        if self.reachable:
            log.warning("%s: the watch broke off (%s); going on with the last known view", self._prefix, error)
        self.reachable = False
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _list(self) -> deque[Put[T] | Gone[T]]:
        """Events that lead from the view to what etcd has now."""
        listing = await self._etcd.list_prefix(self._prefix)
        self._connected()
        self._revision = listing.revision
        found = {item.key.removeprefix(self._prefix): item for item in listing.items}
        events: deque[Put[T] | Gone[T]] = deque()
        for name in [name for name in self.view if name not in found]:
            events.append(Gone(name, self.view.pop(name), listing.revision))
        for item in sorted(found.values(), key=lambda item: item.mod_revision):
            events.extend(self._put(item.key, item.value, item.mod_revision))
        return events

    def _apply(self, changes: list[Change]) -> list[Put[T] | Gone[T]]:
        events: list[Put[T] | Gone[T]] = []
        for change in changes:
            self._revision = max(self._revision, change.revision)
            if change.value is not None:
                events.extend(self._put(change.key, change.value, change.revision))
                continue
            name = change.key.removeprefix(self._prefix)
            if name in self.view:
                events.append(Gone(name, self.view.pop(name), change.revision))
        return events

    def _put(self, key: str, raw: bytes, revision: int) -> list[Put[T] | Gone[T]]:
        name = key.removeprefix(self._prefix)
        try:
            value = self._decode(raw)
        except Exception as error:  # any decoder's own kind: one bad entry must not stop the watch
            log.error("%s: entry %s cannot be read and is passed over: %s", self._prefix, name, error)
            return []
        if self.view.get(name) == value:
            return []
        self.view[name] = value
        return [Put(name, value, revision)]
