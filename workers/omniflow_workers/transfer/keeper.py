"""The thread that renews what is borrowed, and notices who has gone."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omniflow.v1.data_pb2 import DataRequest, RenewLeases
from omniflow_workers.stop_at import stop_at
from omniflow_workers.transfer.borrowing import Borrowing, Loan
from omniflow_workers.transfer.clock import now_ms
from omniflow_workers.transfer.errors import TransferError
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.links import Link, Links

log = logging.getLogger(__name__)

_LATE_S = 0.05
"""How often late replies are looked for, while there are any."""
_ANSWERED_WITHIN = 1 / 4
"""Of the shortest time to live: renewals that fall due meanwhile wait so long."""
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


@dataclass(frozen=True, slots=True)
class _Asked:
    """A renewal that is on its way over `link`, which is kept for its answer."""

    link: Link
    loans: list[Loan]
    request: DataRequest
    asked_ms: int
    ttl_ms: int


class Keeper:
    """Sleeps until a lease is to be renewed, or a connection ends."""

    def __init__(
        self,
        book: Borrowing,
        lock: threading.Lock,
        links: Links,
        limits: TransferLimits,
        give_back: Callable[[Loan], None],
    ) -> None:
        """`lock`: the one that guards the book; `give_back` releases a loan."""
        self._abandoned: deque[Loan] = deque()
        self._give_back = give_back
        self._book = book
        self._lock = lock
        self._links = links
        self._limits = limits
        self._closing = False
        self._wakes_at: int | None = None
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="data-keeper", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something new to look at."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: it is over
            self._wake.send(b"x")

    def abandon(self, loan: Loan) -> None:
        """Nobody has it any more: it is given back soon. Takes no lock."""
        self._abandoned.append(loan)
        self.wake()

    def due_at(self, when_ms: int | None) -> None:
        """A lease is to be renewed then; wakes the thread if it sleeps longer."""
        wakes_at = self._wakes_at
        if when_ms is not None and (wakes_at is None or when_ms < wakes_at):
            self._wakes_at = when_ms
            self.wake()

    def close(self) -> None:
        """Nothing is renewed any more."""
        self._closing = True
        self.wake()
        self._thread.join()
        self._wake.close()
        self._woken.close()

    def _run(self) -> None:
        while not self._closing:
            links = self._links.open()
            self._sleep(links)
            while self._abandoned:
                self._give_back(self._abandoned.popleft())
            for link in links:
                self._look(link)
            self._renew()

    def _sleep(self, links: list[Link]) -> None:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        late = False
        for link in links:
            late = late or link.connection.late > 0
            with contextlib.suppress(ValueError, OSError):  # closed meanwhile
                poll.register(link.connection, _GONE)
        with self._lock:
            # Not put off when what it is for is released: most loans are, and each would wake the thread.
            if self._wakes_at is None or self._wakes_at <= now_ms():
                self._wakes_at = self._book.next_due
            wakes_at = self._wakes_at
        patience = None if wakes_at is None else max(0, wakes_at - now_ms())
        if late:
            patience = min(patience or 1_000_000, int(_LATE_S * 1000))
        for descriptor, event in poll.poll(patience):
            if descriptor == self._woken.fileno():
                with contextlib.suppress(OSError):
                    self._woken.recv(4096)
            elif event & _GONE:
                for link in links:
                    if link.connection.fileno() == descriptor:
                        link.connection.hang_up()

    def _look(self, link: Link) -> None:
        connection = link.connection
        if not connection.broken:
            connection.look(self._limits.answer_s)
            if connection.late > self._limits.answer_s:
                log.warning("worker %s does not answer about its pages, and is let go of", connection.worker)
                connection.hang_up()
        self._links.drop_if_broken(link)

    def _renew(self) -> None:
        now = now_ms()
        with self._lock:
            due = self._book.due(now)
            orphans = self._book.due_orphans(now)
        _read_on(orphans)
        if due:
            self._renew_at_all(due)

    def _renew_at_all(self, due: dict[int, list[Loan]]) -> None:
        """All owners are asked before any answer is waited for: who hangs costs the others nothing."""
        shortest_s = min(loan.ttl_ms for loans in due.values() for loan in loans) / 1000
        until = time.monotonic() + min(self._limits.answer_s, shortest_s * _ANSWERED_WITHIN)
        asked: dict[int, _Asked] = {}
        poll = select.poll()
        for number, loans in due.items():
            link = self._links.numbered(number)
            if link is not None and (renewal := self._begin(link, loans, until)) is not None:
                asked[link.connection.fileno()] = renewal
                poll.register(link.connection, select.POLLIN)
        while asked:
            left_ms = max(0, int((until - time.monotonic()) * 1000))
            # Whoever has answered gets its connection back first.
            answered = [descriptor for descriptor, _ in poll.poll(left_ms)] or list(asked)
            for descriptor in answered:
                poll.unregister(descriptor)
                self._finish(asked.pop(descriptor), until)

    def _begin(self, link: Link, loans: list[Loan], until: float) -> _Asked | None:
        """None when it cannot be asked now: later, unless it has gone."""
        connection, ttl_ms = link.connection, max(loan.ttl_ms for loan in loans)
        request = DataRequest(renew=RenewLeases(leases=[loan.lease for loan in loans], ttl_ms=ttl_ms))
        asked_ms = now_ms()
        try:
            if not connection.late and connection.begin(request, until, busy_until=0.0):
                return _Asked(link, loans, request, asked_ms, ttl_ms)
        except TransferError as error:
            self._cannot(link, error)
        else:
            self._put_off(loans)
        return None

    def _finish(self, asked: _Asked, until: float) -> None:
        try:
            reply = asked.link.connection.finish(asked.request, until)
        except TransferError as error:
            self._cannot(asked.link, error)
            return
        if reply is None:
            self._put_off(asked.loans)
            return
        stop_at("data.borrower.renewed")
        with self._lock:
            renewed, ttl_ms = reply.renewed, min(reply.renewed.ttl_ms, asked.ttl_ms)
            going_on = self._book.renewed(asked.loans, renewed.gone, asked.asked_ms, ttl_ms)
        _read_on(going_on)

    def _put_off(self, loans: list[Loan]) -> None:
        """Who holds up the connection is waited for elsewhere; who hangs is, for a while, and then let go of."""
        with self._lock:
            self._book.put_off(loans, now_ms() + int(_LATE_S * 1000))
        self._wakes_at = None

    def _cannot(self, link: Link, error: TransferError) -> None:
        log.warning("leases of worker %s's pages cannot be renewed: %s", link.connection.worker, error)
        self._links.drop_if_broken(link)


def _read_on(loans: Iterable[Loan]) -> None:
    for loan in loans:
        if loan.reading is not None and not loan.released:
            loan.reading.renew(loan.until_ms)
