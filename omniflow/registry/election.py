"""Who leads: one key, made if absent, under the leader's lease. Its create revision is the term."""

import asyncio
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.endpoints import parse_endpoints
from omniflow.registry.errors import NoLeader
from omniflow.registry.held_key import HeldKey, KeyState
from omniflow.registry.keys import Keys, process_is_gone, this_host
from omniflow.registry.registration import DEFAULT_TTL
from omniflow.registry.requests import KeyValue

log = logging.getLogger(__name__)

_Listener = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Leader:
    """The scheduler that leads. `address`: HOST:PORT of its gRPC services."""

    address: str
    term: int = 0
    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=this_host)
    pid: int = field(default_factory=os.getpid)

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
        )


class Election:
    """A candidate. Once elected it leads until `close()` or until somebody with a higher term is met (rule 14).

    Cut off from etcd it goes on leading: its key vanishes with the lease, and is made again, under its old term, when
    etcd returns and nobody else led meanwhile.
    """

    def __init__(self, endpoints: str | Sequence[str], cluster: str, address: str, *, ttl: float = DEFAULT_TTL) -> None:
        self._endpoints = parse_endpoints(endpoints)
        self._cluster = cluster
        self._claim = _LeaderClaim(cluster, Leader(address))
        self._key = HeldKey(self._endpoints, self._claim, ttl)

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

    def __init__(self, cluster: str, leader: Leader) -> None:
        self.key = Keys(cluster).leader
        self._term_key = Keys(cluster).term
        self.leader = leader
        self.superseded_by: Leader | None = None
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []

    def value(self) -> bytes:
        return self.leader.encode()

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
        self._supersede(Leader(address="", term=int(last.value), incarnation="", host="", pid=0))
        return False

    def taken(self, holder: KeyValue) -> bool:
        other = Leader.decode(holder)
        if not self.leader.term:
            log.info("standing by: %s leads with term %d", other.address, other.term)
            return True
        if other.term > self.leader.term:
            self._supersede(other)
            return False
        return True

    def _supersede(self, other: Leader) -> None:
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
