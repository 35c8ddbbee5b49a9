"""Who holds what of this worker's pages until when: a state machine without clock, sockets or threads.

Every change says which leases of sources are over (`Over`): the caller ends those there. A lease belongs to the
connection that asked for it and is over when it is released, revoked or expired, or when that connection is; nothing
else may end it, and nothing keeps it longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from omniflow.v1.data_pb2 import DataError
from omniflow_workers.transfer.base import PageIds
from omniflow_workers.transfer.errors import Refused


@dataclass(frozen=True, slots=True)
class Borrower:
    """Who is at the other end. `epoch` rises with every connection of an incarnation; no name: somebody who only looks
    at the account."""

    name: str
    incarnation: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Over:
    """A source's lease that is to be ended there. `source`: the caller's number of that source."""

    source: int
    lease: int


@dataclass(slots=True)
class Hold:
    """One lease, as the connection `holder` knows it by `lease`."""

    lease: int
    holder: int
    over: Over
    pages: PageIds
    until_ms: int


@dataclass(slots=True)
class Pull:
    """What is being sent to a connection, which has one at a time. `number` is its epoch."""

    holder: int
    number: int
    lease: int
    bytes: int = 0
    failure: Refused | None = None
    """What kept it from being sent, or sent right."""


@dataclass(slots=True)
class _Connection:
    borrower: Borrower
    leases: set[int] = field(default_factory=set)
    revoked: list[int] = field(default_factory=list)
    pull: Pull | None = None
    last_pull: int = 0


@dataclass(slots=True)
class LendingCounts:
    """Leases since the start, by what became of them."""

    granted: int = 0
    renewed: int = 0
    released: int = 0
    expired: int = 0
    revoked: int = 0
    dropped: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class LendingLimits:
    """What one side takes on at once."""

    connections: int = 1024
    leases_each: int = 4096
    """Of one connection."""


class Lending:
    """The book of one owner."""

    def __init__(self, limits: LendingLimits | None = None) -> None:
        self.counts = LendingCounts()
        self._limits = limits or LendingLimits()
        self._connections: dict[int, _Connection] = {}
        self._current: dict[str, int] = {}
        self._holds: dict[int, Hold] = {}
        self._ends: list[tuple[int, int]] = []
        self._next_holder = 1
        self._next_lease = 1
        self._pages = 0

    # --- connections

    def greet(self, borrower: Borrower) -> tuple[int, int | None]:
        """A connection says whose it is. Its number, and that of the one whose place it takes: hang that one up.

        Raises `Refused` for one that is older than the borrower's present one, or too many.
        """
        if len(self._connections) >= self._limits.connections:
            raise self.refuse(DataError.OVERLOADED, "this worker has as many borrowers as it takes")
        earlier = self._current.get(borrower.name) if borrower.name else None
        if earlier is not None:
            there = self._connections[earlier].borrower
            if there.incarnation == borrower.incarnation and there.epoch >= borrower.epoch:
                raise self.refuse(
                    DataError.STALE_EPOCH,
                    f"connection {borrower.epoch} of {borrower.name} is over: connection {there.epoch} is here",
                )
        holder = self._next_holder
        self._next_holder += 1
        self._connections[holder] = _Connection(borrower)
        if borrower.name:
            self._current[borrower.name] = holder
        return holder, earlier

    def hang_up(self, holder: int) -> list[Over]:
        """The connection has ended: all that it held is over. Harmless when done before."""
        connection = self._connections.pop(holder, None)
        if connection is None:
            return []
        name = connection.borrower.name
        if self._current.get(name) == holder:
            del self._current[name]
        self.counts.dropped += len(connection.leases)
        return [self._remove(lease) for lease in sorted(connection.leases)]

    # --- leases

    def grant(self, holder: int, over: Over, pages: PageIds, until_ms: int) -> int:
        """A source has lent; the lease's number for the connection. Raises `Refused`: then end it at the source."""
        connection = self._connections.get(holder)
        if connection is None:
            raise self.refuse(DataError.STALE_EPOCH, "this connection is over: a later one has taken its place")
        if len(connection.leases) >= self._limits.leases_each:
            raise self.refuse(DataError.OVERLOADED, f"{len(connection.leases)} leases are out to this connection")
        lease = self._next_lease
        self._next_lease += 1
        self._holds[lease] = Hold(lease, holder, over, pages, until_ms)
        connection.leases.add(lease)
        heapq.heappush(self._ends, (until_ms, lease))
        self.counts.granted += 1
        self._pages += len(pages)
        return lease

    def find(self, holder: int, lease: int) -> Hold:
        """Raises `Refused` when that connection has no such lease (any more)."""
        hold = self._holds.get(lease)
        if hold is None or hold.holder != holder:
            raise self.refuse(
                DataError.UNKNOWN_LEASE, f"lease {lease} has ended: it was released or revoked, or it expired"
            )
        return hold

    def renew(self, holder: int, leases: Iterable[int], until_ms: int) -> tuple[list[Hold], list[int]]:
        """Moves the ends of leases, never to before what they are: (those renewed, those that have ended)."""
        renewed: list[Hold] = []
        gone: list[int] = []
        for lease in leases:
            hold = self._holds.get(lease)
            if hold is None or hold.holder != holder:
                gone.append(lease)
                continue
            if until_ms > hold.until_ms:
                hold.until_ms = until_ms
                heapq.heappush(self._ends, (until_ms, lease))
            renewed.append(hold)
        self.counts.renewed += len(renewed)
        return renewed, gone

    def release(self, holder: int, leases: Iterable[int]) -> list[Over]:
        """The borrower gives them back; those that have ended are passed over."""
        ended = []
        for lease in leases:
            hold = self._holds.get(lease)
            if hold is not None and hold.holder == holder:
                ended.append(self._remove(lease))
        self.counts.released += len(ended)
        return ended

    def revoke(self, lease: int) -> list[Over]:
        """The owner ends it; its borrower hears of it with the next reply."""
        if lease not in self._holds:
            return []
        self.counts.revoked += 1
        return [self._take_back(lease)]

    def expire(self, now_ms: int) -> list[Over]:
        """Ends those that are over."""
        ended = []
        while self._ends and self._ends[0][0] <= now_ms:
            _, lease = heapq.heappop(self._ends)
            hold = self._holds.get(lease)
            if hold is not None and hold.until_ms <= now_ms:
                self.counts.expired += 1
                ended.append(self._take_back(lease))
        return ended

    @property
    def next_expiry(self) -> int | None:
        """When `expire` is to be called next, at the latest."""
        while self._ends and self._ends[0][1] not in self._holds:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def take_revoked(self, holder: int) -> list[int]:
        """Leases that ended without the borrower's doing, each told once."""
        connection = self._connections.get(holder)
        if connection is None or not connection.revoked:
            return []
        revoked, connection.revoked = connection.revoked, []
        return revoked

    # --- pulls

    def begin_pull(self, holder: int, number: int, lease: int, first: int, count: int) -> Pull:
        """A later pull takes the place of the one before it. Raises `Refused`."""
        hold = self.find(holder, lease)
        connection = self._connections[holder]
        if number <= connection.last_pull:
            raise self.refuse(DataError.STALE_EPOCH, f"pull {number} is over: pull {connection.last_pull} was begun")
        if count < 1 or first < 0 or first + count > len(hold.pages):
            raise self.refuse(
                DataError.BAD_MESSAGE, f"pages {first} to {first + count} of a lease on {len(hold.pages)} pages"
            )
        connection.last_pull = number
        connection.pull = Pull(holder, number, lease)
        return connection.pull

    def is_out(self, lease: int) -> bool:
        """Whether the lease has not ended."""
        return lease in self._holds

    def is_live(self, pull: Pull) -> bool:
        """Whether it goes on, and its lease is there: what was read before this was asked is what was leased."""
        connection = self._connections.get(pull.holder)
        current = connection is not None and connection.pull is pull
        return current and pull.failure is None and pull.lease in self._holds

    def sent(self, pull: Pull, count: int) -> None:
        """So many more bytes have left."""
        pull.bytes += count

    def finish_pull(self, holder: int, number: int) -> Pull:
        """All came. Raises `Refused` when it is none that goes on, or when what was sent may be something else."""
        connection = self._connections.get(holder)
        pull = connection.pull if connection is not None else None
        if connection is None or pull is None or pull.number != number:
            raise self.refuse(DataError.STALE_EPOCH, f"pull {number} is over")
        connection.pull = None
        if pull.failure is not None:
            raise pull.failure
        return pull

    def abort_pull(self, holder: int, number: int) -> None:
        """Nothing more is sent for it. Harmless when it is over."""
        connection = self._connections.get(holder)
        if connection is not None and connection.pull is not None and connection.pull.number == number:
            connection.pull = None

    def fail_pull(self, pull: Pull, code: DataError.Code.ValueType, message: str) -> None:
        """Nothing more is sent for it; its borrower hears why when it asks."""
        if pull.failure is None:
            pull.failure = self.refuse(code, message)

    # --- the whole

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def leases(self) -> int:
        return len(self._holds)

    @property
    def pages(self) -> int:
        """A page counts for every lease on it."""
        return self._pages

    @property
    def pulls(self) -> int:
        return sum(connection.pull is not None for connection in self._connections.values())

    def refuse(self, code: DataError.Code.ValueType, message: str) -> Refused:
        """The error, counted."""
        self.counts.refused += 1
        return Refused(code, message)

    def check(self) -> None:
        """Raises AssertionError when an invariant is broken: a bug here."""
        held = {lease for connection in self._connections.values() for lease in connection.leases}
        assert held == set(self._holds), "a lease without a connection, or the reverse"
        assert all(lease in self._connections[hold.holder].leases for lease, hold in self._holds.items())
        assert self._pages == sum(len(hold.pages) for hold in self._holds.values())
        assert set(self._current.values()) <= set(self._connections)
        due = set(self._ends)
        assert all((hold.until_ms, lease) in due for lease, hold in self._holds.items()), "one that never expires"

    def _take_back(self, lease: int) -> Over:
        self._connections[self._holds[lease].holder].revoked.append(lease)
        return self._remove(lease)

    def _remove(self, lease: int) -> Over:
        hold = self._holds.pop(lease)
        self._pages -= len(hold.pages)
        connection = self._connections.get(hold.holder)
        if connection is not None:
            connection.leases.discard(lease)
        return hold.over
