"""A process's share of a pool."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from omniflow.v1.data_pb2 import PoolAccount
from omniflow_core import (
    AddressInUse,
    ArenaChannel,
    ArenaError,
    ArenaListener,
    ChannelTimeout,
    CoreError,
    PageAllocator,
)
from omniflow_workers.arenas import Arena
from omniflow_workers.pools.addresses import PoolAddress
from omniflow_workers.pools.clock import now_ms
from omniflow_workers.pools.keeper import Keeper
from omniflow_workers.pools.locks import PoolLocks
from omniflow_workers.pools.member import Member
from omniflow_workers.pools.reading import Read, Reading
from omniflow_workers.pools.wire import Kind, Message
from omniflow_workers.stop_at import stop_at

log = logging.getLogger(__name__)

_ANSWER_S = 2.0
"""How long `grow` waits for the keeper, and `reading` for a new one."""
_KEEPER_S = 0.5
"""How long `grow` waits for a new keeper, once for each that is lost: what it gets otherwise is taken from the cache,
or from late answers."""
_SEND_S = 5.0
_RETRY_S = 0.02
_ALONE_S = 1.0
"""How often a member that asks for nothing looks for a keeper who must know what it has."""
_JOIN_S = 10.0


class PoolShare:
    """What one process has of a pool (`join_pool`). Safe to use from several threads.

    When the keeper of the pool's book dies, one of the members keeps the next one, with what all of them have; until
    then nothing grows, and everything else goes on.
    """

    def __init__(
        self,
        address: PoolAddress,
        arena: Arena,
        member: Member,
        allocator: PageAllocator,
        locks: PoolLocks,
        shown: socket.socket,
        channel: ArenaChannel,
        keeper: Keeper | None,
    ) -> None:
        self.arena: Final = arena
        """All pages, mapped writable: write to pages that `allocator` has handed out, and to no other."""
        self.allocator: Final = allocator
        self.owner: Final = member.owner
        """Names this life of the process in the pool: what others give as holder of leases."""
        self._address = address
        self._member = member
        self._locks = locks
        self._shown = shown
        self._keeper = keeper
        self._changed = threading.Condition()
        self._closing = False
        self._evict: Callable[[], int] = lambda: 0
        self._channel: ArenaChannel | None = channel
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="pool-member", daemon=True)
        self._thread.start()

    @property
    def limit(self) -> int:
        """The most pages that it can have at once."""
        return self._member.limit * self._member.shape.extent_pages

    def when_wanted(self, evict: Callable[[], int]) -> None:
        """Another worker wants pages, there are none, and this one has more than its part: on a thread of its own,
        `evict` makes some free (how many: 0 when it has nothing to evict) until there is something to give."""
        self._evict = evict

    def grow(self, pages: int) -> bool:
        """Asks for extents until `pages` are free, and for some more, so that this is rare. False: the pool, or what
        this process may have of it, has no more; or it has no keeper, which is waited for once."""
        if self.allocator.free_pages >= pages:
            return True
        if self._member.in_vain:  # without the lock, which who tells a keeper that hangs may have for long
            return False
        with self._changed:
            if not self._changed.wait_for(self._has_keeper, _KEEPER_S):
                self._member.in_vain = True
            elif self._channel is not None and self._member.may_ask:
                self._send(self._member.want(pages))
                self._changed.wait_for(lambda: not self._member.asking, _ANSWER_S)
        return self.allocator.free_pages >= pages

    def shrink(self, keep: int | None = None) -> int:
        """Gives whole free extents back, but keeps `keep` pages in all; None: a quarter of what it may have, or its
        part if others lack some. How many pages it gave."""
        member = self._member
        extents = member.enough if keep is None else -(-keep // member.shape.extent_pages)
        with self._changed:
            before = len(member.extents)
            said = member.give_back(extents)
            if said:
                stop_at("pool.member.retired")
            self._send(said)
            return (before - len(member.extents)) * member.shape.extent_pages

    def reading(self, owner: int, pages: NDArray[np.uint32], until: int) -> Reading:
        """Says that `owner` has leased these pages, shape (n,), to this process until `until` (`now_ms`), and they are
        read in place: they stay as they are until then, or until the result is ended, even if the owner dies.

        Check the pages' generations after this and before they are used. Raises `OwnerGoneError`.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._member.claiming, _ANSWER_S)
            read = self._member.begin_read(owner, pages, until)
        return Reading(read, self._renew, self._end_read)

    def counters(self) -> dict[str, int]:
        """Of this process: "extents", "withheld" (pages of them that others read, from an owner before), "limit"
        (pages), "reads" (leases of other owners), "keeps" (1: it keeps the pool's book), and those of its allocator;
        where it keeps the book, that book's with "pool_" before them."""
        with self._changed:
            member = self._member
            found = {
                "extents": len(member.extents),
                "withheld": len(member.withheld),
                "limit": self.limit,
                "reads": len(member.reads),
                "keeps": 0,
            }
            keeper = self._keeper
        if keeper is not None and keeper.alive:
            found["keeps"] = 1
            found |= {f"pool_{name}": count for name, count in keeper.counters().items()}
        return {**self.allocator.counters(), **found}

    def account(self, into: PoolAccount) -> None:
        """Adds what is shared here, and the book where it is kept."""
        found = self.counters()
        into.own_extents, into.withheld = found["extents"], found["withheld"]
        if found["keeps"]:
            book = into.book
            book.owners_now, book.extents = found["pool_owners"], found["pool_extents"]
            book.free, book.owned = found["pool_free"], found["pool_owned"]
            book.orphaned, book.withheld = found["pool_orphaned"], found["pool_withheld"]

    def close(self) -> None:
        """Leaves the pool: nothing of it may be in use here any more. Its extents are handed out again when nobody else
        reads them. Again: nothing."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._wake_up()
        self._thread.join(_JOIN_S)
        self._locks.close()
        self._shown.close()
        self._channel = None
        if self._keeper is not None:
            self._keeper.close()

    def __enter__(self) -> PoolShare:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _has_keeper(self) -> bool:
        """Or will never again have one."""
        return self._member.alone or (self._channel is not None and not self._member.claiming)

    def _renew(self, read: Read, until: int) -> None:
        with self._changed:
            self._send(self._member.reads.renew(read, until))

    def _end_read(self, read: Read) -> None:
        with self._changed:
            self._send(self._member.reads.end(read))

    def _send(self, messages: Iterable[Message]) -> None:
        """To the keeper, if there is one: what a new one must know, the claim says."""
        for message in messages:
            if self._channel is None:
                return
            try:
                self._channel.send(message.encode(), patience=_SEND_S)
            except ArenaError as error:
                self._member.in_vain |= isinstance(error, ChannelTimeout)
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        log.debug("the keeper of the pool is gone: %s", error)
        self._channel = None
        self._member.asking = False
        self._changed.notify_all()
        self._wake_up()  # the thread may wait for a channel that is no more

    def _wake_up(self) -> None:
        with suppress(OSError):  # the thread has just ended
            self._wake.send(b"x")

    def _run(self) -> None:
        while not self._closing:
            channel = self._channel
            if channel is None:
                self._find_keeper()
                continue
            with selectors.DefaultSelector() as selector:
                selector.register(channel, selectors.EVENT_READ)
                selector.register(self._woken, selectors.EVENT_READ)
                while not self._closing and self._channel is channel:
                    ready = [key.fileobj for key, _ in selector.select()]
                    if self._woken in ready:
                        self._woken.recv(64)
                    if channel in ready:
                        self._hear(channel)
        for end in (self._wake, self._woken):
            end.close()

    def _hear(self, channel: ArenaChannel) -> None:
        """All that the keeper has said so far. What it said before it died counts: no other book is made without it."""
        while not self._closing:
            try:
                payload, _ = channel.receive(patience=0)
                message = Message.decode(payload)
            except ChannelTimeout:
                return
            except (ArenaError, ValueError) as error:
                with self._changed:
                    if self._channel is channel:
                        self._lose(error)
                return
            stop_at(f"pool.member.{message.kind.name.lower()}")
            with self._changed:
                self._heard(message)
                self._changed.notify_all()
            if message.kind is Kind.WANTED:
                self._give_up_some()
            stop_at(f"pool.member.{message.kind.name.lower()}.done")

    def _give_up_some(self) -> None:
        while not self.shrink() and self._evict():
            pass

    def _heard(self, message: Message) -> None:
        member = self._member
        try:
            self._send(member.heard(message, now_ms()))
        except (ValueError, RuntimeError, LookupError, CoreError) as error:
            if not member.alone:  # else a new book could go wrong in the same way, and the next one
                log.error("a pool of KV pages cannot be trusted, and is used no further than it is: %s", error)
                member.alone, member.asking = True, False
                self._channel = None
        if message.kind is Kind.REFUSED:
            self._channel = None

    def _find_keeper(self) -> None:
        """The keeper is gone: takes its place, or tells who was quicker what this process has."""
        if self._member.alone:
            self._pause(_ALONE_S)
        with self._changed:
            if not (self._member.refused or self._closing) and (self._keeper is None or not self._keeper.alive):
                self._keeper = self._take_place()
        try:
            channel = ArenaChannel.connect(self._address.keeper)
        except ArenaError:  # between two keepers
            self._pause(_RETRY_S)
            return
        stop_at("pool.member.claiming")
        with self._changed:
            self._channel = channel
            self._send(self._member.claim(now_ms()))

    def _take_place(self) -> Keeper | None:
        try:
            listener = ArenaListener(self._address.keeper)
        except AddressInUse:
            return None
        except ArenaError as error:  # no descriptor is left, say
            log.warning("nobody keeps a pool of KV pages: %s", error)
            return None
        return Keeper(listener, self.arena, self._member.shape, lost=True)

    def _pause(self, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            if selector.select(seconds):
                self._woken.recv(64)
