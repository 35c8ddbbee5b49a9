"""What this worker holds of others' pages: a state machine without clock, sockets or threads.

Ends are those of this process's clock, counted from before the request was sent: never later than the owner's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omniflow_workers.transfer.base import PageIds, Reading

RENEW_AT = 1 / 3
"""Of its time to live, a lease is renewed so long after it was last: so two renewals may fail."""


@dataclass(slots=True, eq=False)
class Loan:
    """One lease at `peer`, a connection's number here. `reading`: of the pool in which the pages are read in place."""

    peer: int
    lease: int
    pages: PageIds
    reading: Reading | None
    ttl_ms: int
    renew_at_ms: int
    until_ms: int
    lost: bool = False
    released: bool = False


@dataclass(slots=True)
class BorrowingCounts:
    """Since the start."""

    acquired: int = 0
    missed: int = 0
    lost: int = 0


class Borrowing:
    """The book of one borrower."""

    def __init__(self) -> None:
        self.counts = BorrowingCounts()
        self._loans: dict[tuple[int, int], Loan] = {}
        self._orphans: set[Loan] = set()
        """Lost, and still read in place here: the pool keeps the pages, if it is their owner who is lost."""

    def granted(
        self, peer: int, lease: int, pages: PageIds, reading: Reading | None, asked_ms: int, ttl_ms: int
    ) -> Loan:
        """An owner has lent what was asked for at `asked_ms`."""
        loan = Loan(peer, lease, pages, reading, ttl_ms, asked_ms + int(ttl_ms * RENEW_AT), asked_ms + ttl_ms)
        self._loans[peer, lease] = loan
        self.counts.acquired += 1
        return loan

    def missed(self) -> None:
        """An owner knew nothing of what was asked for."""
        self.counts.missed += 1

    def release(self, loan: Loan) -> bool:
        """It is needed no more. Whether its owner is to be told: not when it is lost, or was released before."""
        if loan.released:
            return False
        loan.released = True
        self._orphans.discard(loan)
        return self._loans.pop((loan.peer, loan.lease), None) is not None

    def due(self, now_ms: int) -> dict[int, list[Loan]]:
        """By peer, those to renew now. Each is named once, until `renewed` says what came of it, or its time is over:
        then it is lost."""
        for loan in [loan for loan in self._loans.values() if loan.until_ms <= now_ms]:
            self._lose(loan)
        found: dict[int, list[Loan]] = {}
        for loan in self._loans.values():
            if loan.renew_at_ms <= now_ms:
                loan.renew_at_ms = loan.until_ms  # not again, unless it is renewed
                found.setdefault(loan.peer, []).append(loan)
        return found

    def put_off(self, loans: Iterable[Loan], until_ms: int) -> None:
        """They could not be renewed now: `due` names them again then, if they are held."""
        for loan in loans:
            if not loan.lost:
                loan.renew_at_ms = min(until_ms, loan.until_ms)

    def due_orphans(self, now_ms: int) -> list[Loan]:
        """Those whose reading is to be renewed now, to `until_ms`."""
        due = [loan for loan in self._orphans if loan.renew_at_ms <= now_ms]
        for loan in due:
            self._extend(loan, now_ms, loan.ttl_ms)
        return due

    @property
    def next_due(self) -> int | None:
        """When `due` has something to say next."""
        return min((loan.renew_at_ms for loan in (*self._loans.values(), *self._orphans)), default=None)

    def renewed(self, loans: Iterable[Loan], gone: Iterable[int], asked_ms: int, ttl_ms: int) -> list[Loan]:
        """The owner has answered. Those whose readings now go on, to `until_ms`."""
        going_on: list[Loan] = []
        ended = set(gone)
        for loan in loans:
            if loan.lease in ended:
                self.revoked(loan.peer, [loan.lease])
            elif not (loan.lost or loan.released):
                self._extend(loan, asked_ms, ttl_ms)
                going_on.append(loan)
        return going_on

    def revoked(self, peer: int, leases: Iterable[int]) -> None:
        """The owner says that these have ended."""
        for lease in leases:
            loan = self._loans.get((peer, lease))
            if loan is not None:
                self._lose(loan)

    def hung_up(self, peer: int) -> None:
        """The owner has gone, or the connection to it has ended: nothing of it is leased any more."""
        for loan in [loan for loan in self._loans.values() if loan.peer == peer]:
            self._lose(loan)

    @property
    def loans(self) -> int:
        return len(self._loans)

    @property
    def orphans(self) -> int:
        """Lost, and not released yet."""
        return len(self._orphans)

    @property
    def pages(self) -> int:
        return sum(len(loan.pages) for loan in self._loans.values())

    @property
    def pages_in_place(self) -> int:
        return sum(len(loan.pages) for loan in self._loans.values() if loan.reading is not None)

    def _lose(self, loan: Loan) -> None:
        del self._loans[loan.peer, loan.lease]
        loan.lost = True
        self.counts.lost += 1
        if loan.reading is not None:
            loan.renew_at_ms = 0
            self._orphans.add(loan)

    @staticmethod
    def _extend(loan: Loan, asked_ms: int, ttl_ms: int) -> None:
        loan.until_ms = max(loan.until_ms, asked_ms + ttl_ms)
        loan.renew_at_ms = asked_ms + int(ttl_ms * RENEW_AT)
