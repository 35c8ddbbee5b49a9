"""A key that a process holds under a lease for as long as it lives, kept by a thread of its own.

The thread makes blocking calls and shares no event loop with anybody, so that neither a blocked loop nor a busy engine
delays the keep-alive. (A second asyncio loop would not do: gRPC polls for all loops of a process in common.)
"""

import logging
import math
import threading
import time
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

import grpc

from omniflow.registry.blocking import LEASE_GONE, BlockingEtcd
from omniflow.registry.errors import RegistryUnreachable
from omniflow.registry.requests import Created, KeyValue

log = logging.getLogger(__name__)

CALL_TIMEOUT = 3.0
CLOSE_TIMEOUT = 5.0
FIRST_PAUSE = 0.1
# How often a holder's lease is looked at to see whether it is being renewed.
LOOK_AGAIN = 0.5


class KeyState(Enum):
    SEEKING = "seeking"  # not held yet, nobody else is known to hold it
    HELD = "held"
    CONTENDED = "contended"  # somebody else holds it; alive or not is not known yet
    TAKEN = "taken"  # somebody else holds it and renews it
    CLOSED = "closed"


class Claim(Protocol):
    """What is claimed, and what is to be made of another holder."""

    @property
    def key(self) -> str: ...
    def value(self) -> bytes:
        """What to write. Asked again before every write."""

    def create(self, etcd: BlockingEtcd, lease: int) -> Created:
        """Makes the key, unless somebody has it or this process may not. In the keeper's thread."""

    def is_mine(self, value: bytes) -> bool:
        """Written by this incarnation, under a lease that has been lost since."""

    def is_dead(self, value: bytes) -> bool:
        """Whoever wrote this has died for certain: its key may be taken at once."""

    def held(self, etcd: BlockingEtcd, revision: int) -> bool:
        """The key is held (again). False: give it up, and stop. Called in the keeper's thread."""

    def taken(self, holder: KeyValue) -> bool:
        """Another living process holds the key. False: stop claiming it. In the keeper's thread, once a holder."""


class HeldKey:
    """Keeps one `Claim`. `state` and `reachable` may be read from any thread; `changed` tells when they change."""

    def __init__(self, endpoints: Sequence[str], claim: Claim, ttl: float) -> None:
        if ttl < 1:
            raise ValueError(f"ttl={ttl}: a lease lasts whole seconds, at least 1")
        self.changed = threading.Condition()
        self.state = KeyState.SEEKING
        self.reachable = False
        self.holder: KeyValue | None = None
        self.failure: RegistryUnreachable | None = None
        self._endpoints = tuple(endpoints)
        self._claim = claim
        self._ttl = ttl
        self._lease = 0
        self._pause = FIRST_PAUSE
        self._renewal = _Renewal()
        self._dirty = False
        self._closing = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"keep {claim.key}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rewrite(self) -> None:
        """The claim's value has changed."""
        self._dirty = True
        self._wake.set()

    def close(self) -> None:
        """Gives the key up; waits at most `CLOSE_TIMEOUT` seconds for etcd, whose lease ends by itself otherwise."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT)

    def _run(self) -> None:
        etcd = BlockingEtcd(self._endpoints, min(CALL_TIMEOUT, self._ttl / 3))
        try:
            while not self._closing:
                self._wake.clear()
                self._wake.wait(self._step(etcd))
            self._give_up(etcd)
        finally:
            etcd.close()
            self._become(KeyState.CLOSED, reachable=self.reachable)

    def _step(self, etcd: BlockingEtcd) -> float:
        """One exchange with etcd. Returns the seconds to the next."""
        try:
            pause = self._advance(etcd)
        except (RegistryUnreachable, grpc.RpcError) as error:
            return self._unreachable(error)
        except Exception as error:
            # A defect, but the process lives on its lease: it goes on trying, and says so.
            log.exception("%s: holding it failed, trying again", self._claim.key)
            return self._unreachable(RegistryUnreachable(self._endpoints, f"holding {self._claim.key}", repr(error)))
        self._pause = FIRST_PAUSE
        if not self.reachable:
            if self.failure is not None:
                log.info("%s: etcd answers again", self._claim.key)
            self._become(self.state, reachable=True)
        return pause

    def _advance(self, etcd: BlockingEtcd) -> float:
        if self._lease and etcd.keep_alive(self._lease) == LEASE_GONE:
            self._lost("its lease has expired")
        if self.state is KeyState.HELD:
            if not etcd.is_held(self._claim.key, self._lease):
                self._lost("its key was deleted")
            elif self._dirty:
                self._dirty = False
                etcd.put(self._claim.key, self._claim.value(), self._lease)
        if not self._lease:
            self._lease = etcd.grant(math.ceil(self._ttl))
        return self._ttl / 3 if self.state is KeyState.HELD else self._claim_key(etcd)

    def _claim_key(self, etcd: BlockingEtcd) -> float:
        self._dirty = False
        found = self._claim.create(etcd, self._lease)
        if found.made:
            return self._held(etcd, found.revision)
        holder = found.holder
        if holder is None:
            etcd.wait_change(self._claim.key, found.revision, min(LOOK_AGAIN, self._ttl / 3))
            return 0.0
        if self._claim.is_mine(holder.value):
            revision = etcd.replace_if_unchanged(holder, self._claim.value(), self._lease)
            return 0.0 if revision is None else self._held(etcd, holder.create_revision)
        if holder.lease and self._claim.is_dead(holder.value):
            log.info("%s: its holder is dead, taking over", self._claim.key)
            etcd.revoke(holder.lease)
            return 0.0
        self._contend(etcd, holder)
        etcd.wait_change(self._claim.key, found.revision, min(LOOK_AGAIN, self._ttl / 3))
        return 0.0

    def _contend(self, etcd: BlockingEtcd, holder: KeyValue) -> None:
        renewed = not holder.lease or self._renewal.seen(holder, etcd.remaining(holder.lease))
        if not renewed:
            self._become(KeyState.CONTENDED if self.state is not KeyState.TAKEN else KeyState.TAKEN, reachable=True)
            return
        is_news = self.holder is None or self.holder.create_revision != holder.create_revision
        self.holder = holder
        self._become(KeyState.TAKEN, reachable=True)
        if is_news and not self._claim.taken(holder):
            self._closing = True

    def _held(self, etcd: BlockingEtcd, revision: int) -> float:
        self.holder = None
        if not self._claim.held(etcd, revision):
            self._closing = True
            return 0.0
        self._become(KeyState.HELD, reachable=True)
        return self._ttl / 3

    def _lost(self, why: str) -> None:
        if self.state is KeyState.HELD:
            log.warning("%s: lost (%s), claiming it again", self._claim.key, why)
            self._become(KeyState.SEEKING, reachable=True)
        if why == "its lease has expired":
            self._lease = 0

    def _unreachable(self, error: RegistryUnreachable | grpc.RpcError) -> float:
        if isinstance(error, RegistryUnreachable):
            failure = error
        else:
            failure = RegistryUnreachable(self._endpoints, f"holding {self._claim.key}", str(error))
        if self.failure is None:
            log.warning("%s: %s", self._claim.key, failure)
        with self.changed:
            self.failure = failure
            self.reachable = False
            self.changed.notify_all()
        self._pause = min(self._pause * 2, max(FIRST_PAUSE, self._ttl / 10))
        return self._pause

    def _become(self, state: KeyState, *, reachable: bool) -> None:
        with self.changed:
            self.state = state
            self.reachable = reachable
            self.failure = None if reachable else self.failure
            self.changed.notify_all()

    def _give_up(self, etcd: BlockingEtcd) -> None:
        if not self._lease:
            return
        try:
            etcd.revoke(self._lease)
        except (RegistryUnreachable, grpc.RpcError) as error:
            log.warning("%s: could not be given up (%s); it goes in %.0f s", self._claim.key, error, self._ttl)


class _Renewal:
    """Tells a lease that somebody renews from one that runs out: only a renewal makes its remaining time grow."""

    def __init__(self) -> None:
        self._lease = 0
        self._ends_at = 0.0

    def seen(self, holder: KeyValue, remaining: int) -> bool:
        ends_at = time.monotonic() + remaining
        if holder.lease != self._lease:
            self._lease, self._ends_at = holder.lease, ends_at
            return False
        # etcd answers whole seconds, so the end seems to move by up to one.
        return ends_at > self._ends_at + 1.5
