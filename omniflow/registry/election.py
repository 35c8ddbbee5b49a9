"""Who leads: one key, made if absent, under the leader's lease. Its create revision is the term.

Of two schedulers with a journal each only one that has all that clients were told is elected: see `sync_set`.
"""

import asyncio
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Self

import grpc

from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.endpoints import parse_endpoints
from omniflow.registry.errors import NoLeader, RegistryUnreachable
from omniflow.registry.held_key import CALL_TIMEOUT, HeldKey, KeyState
from omniflow.registry.keys import Keys, process_is_gone, this_host
from omniflow.registry.registration import DEFAULT_TTL
from omniflow.registry.requests import Created, KeyValue, Unchanged
from omniflow.registry.sync_set import Candidate, SyncSet

log = logging.getLogger(__name__)

_Listener = Callable[[], object]
_NO_JOURNAL = Candidate()


@dataclass(frozen=True, slots=True)
class Leader:
    """The scheduler that leads. `address`: HOST:PORT of its gRPC services. `journal_address`: the link address at which
    a standby follows its journal; empty: it lets nobody."""

    address: str
    term: int = 0
    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=this_host)
    pid: int = field(default_factory=os.getpid)
    journal_address: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, found: KeyValue) -> Self:
        """A record without a term was the first of its leader: its term is the revision that made it."""
        leader = cls.parse(found.value)
        return leader if leader.term else replace(leader, term=found.create_revision)

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """Fields of later versions are passed over."""
        record = json.loads(value)
        return cls(
            address=str(record["address"]),
            term=int(record.get("term", 0)),
            incarnation=str(record.get("incarnation", "")),
            host=str(record.get("host", "")),
            pid=int(record.get("pid", 0)),
            journal_address=str(record.get("journal_address", "")),
        )


def _nobody(term: int) -> Leader:
    """Somebody has led that term, and is gone."""
    return Leader(address="", term=term, incarnation="", host="", pid=0)


class Election:
    """A candidate. Once elected it leads until `close()` or until somebody with a higher term is met (rule 14).

    Cut off from etcd it goes on leading: its key vanishes with the lease, and is made again, under its old term, when
    etcd returns and nobody else led meanwhile.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        cluster: str,
        address: str,
        *,
        ttl: float = DEFAULT_TTL,
        journal_address: str = "",
        candidate: Candidate = _NO_JOURNAL,
        on_leader: Callable[[Leader], None] = lambda _: None,
    ) -> None:
        """`address` and `journal_address`: as in `Leader`. `on_leader` is called in the keeper's thread with each other
        process that is seen to lead, alive or not."""
        self._endpoints = parse_endpoints(endpoints)
        self._cluster = cluster
        self._claim = _LeaderClaim(cluster, Leader(address, journal_address=journal_address), candidate, on_leader)
        self._key = HeldKey(self._endpoints, self._claim, ttl)
        self._ttl = ttl

    @property
    def term(self) -> int:
        """0 until elected."""
        return self._claim.leader.term

    @property
    def reachable(self) -> bool:
        """Whether etcd answered when last asked."""
        return self._key.reachable

    @property
    def superseded_by(self) -> Leader | None:
        """The leader with a higher term that ended this one's."""
        return self._claim.superseded_by

    def start(self) -> None:
        """Campaigns, in a thread of its own."""
        self._key.start()

    def wait_elected(self, timeout: float) -> int:
        """The term, once elected. Raises `NoLeader` (somebody else leads still), or `RegistryUnreachable`, after
        `timeout` seconds."""
        with self._key.changed:
            settled = {KeyState.HELD, KeyState.CLOSED}
            self._key.changed.wait_for(lambda: self._key.state in settled, timeout)
            if self.term > 0:
                return self.term
            failure = self._key.failure
        raise failure or NoLeader(self._cluster, timeout)

    async def elected(self, within: float) -> int:
        """`wait_elected` for an event loop."""
        return await asyncio.to_thread(self.wait_elected, within)

    def wait_superseded(self, timeout: float | None = None) -> Leader | None:
        """The leader that ended this one's term; None after `timeout` seconds, or when closed."""
        self._claim.over.wait(timeout)
        return self._claim.superseded_by

    def mark(self, standby: str | None) -> bool:
        """Makes the set of journals that may lead the leader's own and that of `standby`, whatever it was.

        False: another one leads, and this one is superseded. Raises `RegistryUnreachable`, and then it may be written.
        Blocks; call it from one thread.
        """
        etcd = BlockingEtcd(self._endpoints, min(CALL_TIMEOUT, self._ttl / 3))
        try:
            return self._claim.mark(etcd, standby)
        except grpc.RpcError as error:
            raise RegistryUnreachable(self._endpoints, "marking the standby", str(error)) from None
        finally:
            etcd.close()

    async def superseded(self) -> Leader | None:
        """`wait_superseded` for an event loop; None when closed."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._claim.when_over(lambda: loop.call_soon_threadsafe(over.set))
        await over.wait()
        return self._claim.superseded_by

    def close(self) -> None:
        """Resigns, so that another candidate is elected at once. Blocks for an answer of etcd, 5 s at most."""
        self._claim.finish()
        self._key.close()


class _LeaderClaim:
    """The one leader's key of a cluster."""

    def __init__(self, cluster: str, leader: Leader, candidate: Candidate, on_leader: Callable[[Leader], None]) -> None:
        self._keys = Keys(cluster)
        self.key = self._keys.leader
        self._term_key = self._keys.term
        self.leader = leader
        self._candidate = candidate
        self._on_leader = on_leader
        self._seen = Leader(address="", incarnation="")
        self._barred = False
        self.superseded_by: Leader | None = None
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []

    def value(self) -> bytes:
        return self.leader.encode()

    def create(self, etcd: BlockingEtcd, lease: int) -> Created:
        found = self._create(etcd, lease)
        if found.holder is not None and not self.is_mine(found.holder.value):
            self._see(Leader.decode(found.holder))
        return found

    def _create(self, etcd: BlockingEtcd, lease: int) -> Created:
        if self.leader.term:
            return self._create_again(etcd, lease)
        if not self._candidate.journal:
            return etcd.create_if_absent(self.key, self.value(), lease)
        puts = {self._keys.in_sync: SyncSet((self._candidate.journal,)).encode()}
        if self._candidate.alone or self._candidate.take_over:
            return etcd.create_if_absent(self.key, self.value(), lease, puts=puts)
        seen = etcd.get(self._keys.in_sync)
        if not self._candidate.may_lead(seen):
            return self._stand_back(etcd)
        guards = (Unchanged.since(self._keys.in_sync, seen),)
        return etcd.create_if_absent(self.key, self.value(), lease, guards=guards, puts=puts)

    def _create_again(self, etcd: BlockingEtcd, lease: int) -> Created:
        """Under the old term, and not for a moment when somebody has led since: a standby would follow."""
        last = etcd.get(self._term_key)
        if last is not None and int(last.value) > self.leader.term:
            self.supersede(_nobody(int(last.value)))
            return etcd.look(self.key)
        guards = (Unchanged.since(self._term_key, last),)
        return etcd.create_if_absent(self.key, self.value(), lease, guards=guards)

    def _stand_back(self, etcd: BlockingEtcd) -> Created:
        found = etcd.look(self.key)
        if found.holder is None and not self._barred:
            log.warning(
                "nobody leads, and this scheduler may not: its journal lacks what another one has told clients. It "
                "waits for that one. If that one's journal is lost, start this one with --take-over: jobs that only "
                "the other one knew are lost"
            )
        self._barred = found.holder is None
        return found

    def _see(self, other: Leader) -> None:
        if other != self._seen:
            self._seen = other
            self._on_leader(other)

    def mark(self, etcd: BlockingEtcd, standby: str | None) -> bool:
        """It is written anew even when it says the same: an earlier try that is still under way then fails."""
        journals = (self._candidate.journal, *([standby] if standby else []))
        while True:
            holder, last = etcd.get(self.key), etcd.get(self._term_key)
            seen = etcd.get(self._keys.in_sync)
            other = Leader.decode(holder) if holder else self.leader
            if last is not None and int(last.value) > other.term:
                other = _nobody(int(last.value))
            if seen is not None and SyncSet.parse(seen.value).bars(self._candidate.journal):
                # Somebody was elected, who may be gone before that was said elsewhere.
                other = max(other, _nobody(seen.mod_revision), key=lambda leader: leader.term)
            if other.term > self.leader.term:
                self.supersede(other)
                return False
            guards = (
                Unchanged.since(self.key, holder),
                Unchanged.since(self._term_key, last),
                Unchanged.since(self._keys.in_sync, seen),
            )
            if etcd.put_if_unchanged({self._keys.in_sync: SyncSet(journals).encode()}, guards):
                return True

    def is_mine(self, value: bytes) -> bool:
        return Leader.parse(value).incarnation == self.leader.incarnation

    def is_dead(self, value: bytes) -> bool:
        holder = Leader.parse(value)
        return process_is_gone(holder.host, holder.pid)

    def held(self, etcd: BlockingEtcd, revision: int) -> bool:
        """The last term is kept beside the key: a leader that comes back must see who led and died meanwhile."""
        if not self.leader.term:
            etcd.put(self._term_key, str(revision).encode(), lease=0)
            self.leader = replace(self.leader, term=revision)
            log.info("elected, term %d", revision)
            return True
        last = etcd.get(self._term_key)
        if last is None or int(last.value) <= self.leader.term:
            return True
        self.supersede(_nobody(int(last.value)))
        return False

    def taken(self, holder: KeyValue) -> bool:
        other = Leader.decode(holder)
        if not self.leader.term:
            self._candidate = replace(self._candidate, take_over=False)
            log.info("standing by: %s leads with term %d", other.address, other.term)
            return True
        if other.term > self.leader.term:
            self.supersede(other)
            return False
        return True

    def supersede(self, other: Leader) -> None:
        log.warning("term %d is over: term %d is led from %s", self.leader.term, other.term, other.address or "nowhere")
        self.superseded_by = other
        self.finish()

    def when_over(self, listener: _Listener) -> None:
        with self._lock:
            if not self.over.is_set():
                self._listeners.append(listener)
                return
        listener()

    def finish(self) -> None:
        with self._lock:
            self.over.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
