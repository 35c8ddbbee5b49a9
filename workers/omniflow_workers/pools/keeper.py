"""The keeper of a pool's book: it listens at the pool's address, and does what the `Book` says."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress

from omniflow_core import ArenaChannel, ArenaError, ArenaListener, ChannelHungUp, ChannelTimeout, ExtentError
from omniflow_workers.arenas import Arena
from omniflow_workers.pools.book import Admit, Book, Effect, GiveUp, Send
from omniflow_workers.pools.clock import now_ms
from omniflow_workers.pools.locks import PoolLocks
from omniflow_workers.pools.shape import PoolShape
from omniflow_workers.pools.wire import Message
from omniflow_workers.stop_at import stop_at

log = logging.getLogger(__name__)

ARENA_NAME = "kv"
_SEND_S = 1.0
"""A member whose queue is full for so long hangs: it is cut off, and claims what it has when it goes on."""
_LOOK_S = 0.01
_JOIN_S = 10.0


class Keeper:
    """One thread. Its member in the same process is connected to it like all the others."""

    def __init__(self, listener: ArenaListener, arena: Arena, shape: PoolShape, *, lost: bool) -> None:
        """`lost`: members of an earlier keeper live, and will claim what they have."""
        self._arena = arena
        self._book = Book(arena_words(arena), shape, lost=lost)
        self._locks = PoolLocks(arena.book.fileno())
        self._channels: dict[int, ArenaChannel] = {}
        self._listener: ArenaListener | None = listener
        self._last_peer = 0
        self._wake, self._woken = socket.socketpair()
        self._closing = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pool-keeper", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it keeps the book: it may have given up."""
        return self._thread.is_alive()

    def counters(self) -> dict[str, int]:
        with self._lock:
            return self._book.counters()

    def close(self) -> None:
        """One of the members, if there are any, keeps the next book. Again, or when it has given up: nothing."""
        self._closing.set()
        with suppress(OSError):  # its thread has ended already, or does so now
            self._wake.send(b"x")
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            stop_at("pool.keeper.bound")
            while not self._closing.is_set():
                ready = self._selector.select(self._patience())
                with self._lock:
                    for key, _ in ready:
                        if key.fileobj is self._listener:
                            self._accept()
                        elif isinstance(key.data, int):
                            self._hear(key.data)
                    self._look()
        except Exception:
            log.exception("the keeper of a pool of KV pages has failed: another member takes its place")
        finally:
            self._end()

    def _patience(self) -> float | None:
        if self._book.restoring or self._book.doubtful:
            return _LOOK_S
        expiry = self._book.next_expiry
        return None if expiry is None else max(0.0, expiry - now_ms()) / 1000 + 0.001

    def _look(self) -> None:
        """What comes by itself: deaths, ends of leases, claims that are complete."""
        for owner in list(self._book.doubtful):
            if not self._locks.lives(owner):
                stop_at("pool.keeper.death")
                self._do(self._book.dead(owner))
        if self._book.restoring:
            found = self._book.look(self._locks.living)
            if found:
                stop_at("pool.keeper.restored")
            self._do(found)
        expiry = self._book.next_expiry
        if expiry is not None and expiry <= now_ms():
            self._do(self._book.expire(now_ms()))

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            channel = self._listener.accept(patience=0)
        except ChannelTimeout:
            return
        except ArenaError as error:  # another user's, or no descriptor is left
            log.warning("a process cannot be taken into a pool of KV pages: %s", error)
            self._closing.wait(_LOOK_S)
            return
        self._last_peer += 1
        self._channels[self._last_peer] = channel
        self._book.connected(self._last_peer)
        self._selector.register(channel, selectors.EVENT_READ, self._last_peer)

    def _hear(self, peer: int) -> None:
        """All that a member has said so far."""
        while (channel := self._channels.get(peer)) is not None and not self._closing.is_set():
            try:
                payload, descriptors = channel.receive(patience=0)
                if descriptors:
                    raise ValueError("descriptors from a member")
                effects = self._book.heard(peer, Message.decode(payload), now_ms())
            except ChannelTimeout:
                return
            except (ArenaError, ValueError, ExtentError) as error:
                self._hang_up(peer, error)
                return
            self._do(effects)

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, message):
                    stop_at(f"pool.keeper.{message.kind.name.lower()}")
                    self._send(peer, message)
                case Admit(peer):
                    self._admit(peer)
                case GiveUp(why):
                    log.warning("a pool of KV pages gets a new book: %s", why)
                    self._closing.set()

    def _send(self, peer: int, message: Message) -> None:
        channel = self._channels.get(peer)
        if channel is None:
            return
        try:
            channel.send(message.encode(), patience=_SEND_S)
        except ArenaError as error:
            self._hang_up(peer, error)

    def _admit(self, peer: int) -> None:
        channel = self._channels.get(peer)
        if channel is None:
            return
        try:
            channel.offer([self._arena.offered(ARENA_NAME)], patience=_SEND_S)
        except ArenaError as error:
            self._hang_up(peer, error)

    def _hang_up(self, peer: int, error: Exception) -> None:
        if not isinstance(error, ChannelHungUp):
            log.warning("a member of a pool of KV pages is cut off: %s", error)
        self._selector.unregister(self._channels.pop(peer))
        self._do(self._book.hung_up(peer))

    def _end(self) -> None:
        """The address is free, and every member hears of it."""
        with self._lock:
            self._selector.close()
            self._listener = None
            self._channels.clear()
            self._locks.close()
        for end in (self._wake, self._woken):
            end.close()


def arena_words(arena: Arena) -> tuple[int, int]:
    """The arena's id, as messages say it."""
    return int.from_bytes(arena.book.id[:8], "little"), int.from_bytes(arena.book.id[8:], "little")
