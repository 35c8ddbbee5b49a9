"""What this worker holds of others' pages: a state machine without clock, sockets or threads.

Ends are those of this process's clock, counted from before the request was sent: never later than the owner's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omniflow_workers.transfer.base import PageIds

RENEW_AT = 1 / 3
"""Of its time to live, a lease is renewed so long after it was last: so two renewals may fail."""


@dataclass(slots=True, eq=False)
class Loan:
    """One lease at `peer`, a connection's number here. `pool_owner`: of the pool in which they are read; 0: nowhere."""

    peer: int
    lease: int
    pages: PageIds
    pool_owner: int
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
        self._dead: set[Loan] = set()
        """Lost, and still read in place by somebody here."""

    def granted(self, peer: int, lease: int, pages: PageIds, pool_owner: int, asked_ms: int, ttl_ms: int) -> Loan:
        """An owner has lent what was asked for at `asked_ms`."""
        loan = Loan(peer, lease, pages, pool_owner, ttl_ms, asked_ms + int(ttl_ms * RENEW_AT), asked_ms + ttl_ms)
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
        self._dead.discard(loan)
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

    @property
    def next_due(self) -> int | None:
        """When `due` has something to say next."""
        return min((loan.renew_at_ms for loan in self._loans.values()), default=None)

    def renewed(self, loans: Iterable[Loan], gone: Iterable[int], asked_ms: int, ttl_ms: int) -> None:
        """The owner has answered."""
        ended = set(gone)
        for loan in loans:
            if loan.lease in ended:
                self.revoked(loan.peer, [loan.lease])
            elif not (loan.lost or loan.released):
                loan.until_ms = max(loan.until_ms, asked_ms + ttl_ms)
                loan.renew_at_ms = asked_ms + int(ttl_ms * RENEW_AT)

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

    def reading(self, pool_owner: int) -> list[tuple[PageIds, int]]:
        """What is read in place of that owner: (pages, until when). Whoever reuses them asks for it, so what is lost is
        named too, until it is released."""
        loans = [*self._loans.values(), *self._dead]
        return [(loan.pages, loan.until_ms) for loan in loans if loan.pool_owner == pool_owner]

    @property
    def loans(self) -> int:
        return len(self._loans)

    @property
    def pages(self) -> int:
        return sum(len(loan.pages) for loan in self._loans.values())

    @property
    def pages_in_place(self) -> int:
        return sum(len(loan.pages) for loan in self._loans.values() if loan.pool_owner)

    def _lose(self, loan: Loan) -> None:
        del self._loans[loan.peer, loan.lease]
        loan.lost = True
        self.counts.lost += 1
        if loan.pool_owner:
            self._dead.add(loan)
