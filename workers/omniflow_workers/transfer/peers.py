"""The other workers, as lenders of pages: connections to them, and what is borrowed over these."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from omniflow.config import TlsConfig
from omniflow.v1.data_pb2 import AcquirePages, DataReply, DataRequest, MemoryAccount, PullAccount
from omniflow_core import PageKeys, StalePage, UnknownPage
from omniflow_workers.stop_at import stop_at
from omniflow_workers.transfer.base import DEFAULT_TTL_S, Borrowed, PagePool, Transfer
from omniflow_workers.transfer.borrowed import BorrowedPages, Terms
from omniflow_workers.transfer.borrowing import Borrowing, Loan
from omniflow_workers.transfer.clock import now_ms
from omniflow_workers.transfer.connection import Connection
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.directory import Directory, serving
from omniflow_workers.transfer.errors import PeerLost, PeerMisbehaved, Refused, TransferError
from omniflow_workers.transfer.identity import Identity
from omniflow_workers.transfer.keeper import Keeper
from omniflow_workers.transfer.lent import lent_pages
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.links import Link, Links

log = logging.getLogger(__name__)

BEST_WITHIN_S = 0.1


class DataPeers:
    """`Peers`. One of a process: it connects to a worker when it first borrows from it, and stays connected."""

    def __init__(
        self,
        me: Identity,
        directory: Directory,
        *,
        transfer: Transfer = "auto",
        tls: TlsConfig | None = None,
        limits: TransferLimits | None = None,
    ) -> None:
        """`directory` is closed with this."""
        self._me = me
        self._directory = directory
        self._transfer = transfer
        self._encrypted = tls is not None
        self._limits = limits or TransferLimits()
        self._counts = PullCounts()
        self._lock = threading.Lock()
        self._book = Borrowing()
        self._pools: dict[bytes, PagePool] = {}
        self._links = Links(me, tls, self._limits, self._counts, self._revoked, self._wake, self._gone)
        self._keeper = Keeper(self._book, self._lock, self._links, self._limits, self._give_back)

    def share(self, pool: PagePool) -> None:
        self._pools[pool.id] = pool

    def workers(self, model: str, layout: str) -> list[str]:
        found = self._directory.workers().items()
        # Of this worker there must be one beside the role that asks.
        return [name for name, info in found if serving(info, model, layout) > (name == self._me.worker)]

    def acquire(
        self, worker: str, model: str, layout: str, keys: PageKeys, *, ttl: float = DEFAULT_TTL_S
    ) -> Borrowed | None:
        link = self._link(worker)
        request, asked_ms = _request(model, layout, keys, ttl)
        try:
            reply = link.connection.ask(request, self._limits.answer_s)
        except Refused as error:
            raise PeerLost(f"worker {worker} lends nothing", worker=worker, cause=error.message) from error
        finally:
            self._links.drop_if_broken(link)
        return self._taken(link, request, reply, asked_ms)

    def best(
        self, model: str, layout: str, keys: PageKeys, *, ttl: float = DEFAULT_TTL_S, within: float = BEST_WITHIN_S
    ) -> Borrowed | None:
        until = time.monotonic() + within
        found: list[Borrowed] = []
        asked: list[_Asked] = []
        for link in self._links_to(self.workers(model, layout), until):
            request, asked_ms = _request(model, layout, keys, ttl)
            try:
                if link.connection.begin(request, until):
                    asked.append((link, request, asked_ms))
            except TransferError:
                self._links.drop_if_broken(link)
        replies = [(each, _answer(each, until)) for each in asked]
        for (link, request, asked_ms), reply in replies:
            self._links.drop_if_broken(link)
            try:
                borrowed = None if reply is None else self._taken(link, request, reply, asked_ms)
            except PeerMisbehaved as error:
                log.warning("%s", error)
                continue
            if borrowed is not None:
                found.append(borrowed)
        self._keeper.wake()
        # Of equal ones that which needs no copy.
        found.sort(key=lambda each: (len(each.pages), each.in_place))
        for other in found[:-1]:
            other.release()
        return found[-1] if found else None

    def account(self, into: MemoryAccount) -> None:
        with self._lock:
            book, counts, account = self._book, self._book.counts, into.borrowed
            account.connections_now = len(self._links.open())
            account.leases_now, account.pages_now = book.loans, book.pages
            account.pages_in_place_now = book.pages_in_place
            account.acquired, account.missed, account.lost = counts.acquired, counts.missed, counts.lost
        mine = PullAccount()
        self._counts.fill(mine)
        for field, value in mine.ListFields():
            setattr(into.pulls, field.name, getattr(into.pulls, field.name) + value)

    def close(self) -> None:
        """Gives everything back. What is borrowed is lost; pulls under way fail."""
        self._keeper.close()
        self._links.close()
        self._directory.close()
        self._pools.clear()

    # --- connections

    def _link(self, worker: str) -> Link:
        info = self._directory.workers().get(worker)
        if info is None:
            raise PeerLost(f"worker {worker} is not registered", worker=worker)
        return self._links.to(info)

    def _links_to(self, workers: Sequence[str], until: float) -> list[Link]:
        """To those that can be reached until then. Who hangs over an answer is not asked again."""
        infos = self._directory.workers()
        ready: list[Link] = []
        dialled: list[Future[Link]] = []
        for worker in workers:
            if (info := infos.get(worker)) is None:
                continue
            link = self._links.known(worker)
            if link is None:
                dialled.append(self._links.dial(info))
            elif not link.connection.late:
                ready.append(link)
        for future in dialled:
            try:
                ready.append(future.result(max(0.0, until - time.monotonic())))
            except (TimeoutError, TransferError) as error:
                # Who dialled has said why.
                log.debug("a worker is passed over: %s", error or "it cannot be reached in time")
        return ready

    def _revoked(self, number: int, leases: Sequence[int]) -> None:
        with self._lock:
            self._book.revoked(number, leases)

    def _wake(self) -> None:
        self._keeper.wake()

    def _gone(self, number: int) -> None:
        with self._lock:
            self._book.hung_up(number)

    # --- what is borrowed

    def _taken(self, link: Link, request: DataRequest, reply: DataReply, asked_ms: int) -> Borrowed | None:
        """What a reply lends. Raises `PeerMisbehaved`."""
        connection, lent = link.connection, reply.acquired
        if reply.WhichOneof("reply") != "acquired":
            raise self._misbehaved(connection, "it answers something else")
        if not lent.lease:
            with self._lock:
                self._book.missed()
            return None
        try:
            ids, generations = lent_pages(lent, len(request.acquire.keys) // 32, request.acquire.ttl_ms)
        except ValueError as error:
            raise self._misbehaved(connection, str(error)) from error
        pool = None if self._transfer == "collective" else self._pools.get(lent.pool)
        if pool is None and not self._may_send(connection):
            connection.end_leases([lent.lease], self._limits.answer_s)
            return None
        reading = None if pool is None else pool.read(lent.pool_owner, ids, asked_ms + lent.ttl_ms)
        if pool is not None and reading is None:
            connection.end_leases([lent.lease], self._limits.answer_s)
            return None
        with self._lock:
            loan = self._book.granted(connection.number, lent.lease, ids, reading, asked_ms, lent.ttl_ms)
            due = self._book.next_due
        self._keeper.due_at(due)
        terms = Terms(connection.worker, loan, generations, lent.page_bytes, lent.device, pool, link.receiver)
        borrowed = BorrowedPages(terms, self._give_back, self._keeper.abandon, self._limits, self._counts)
        stop_at("data.borrower.acquired")
        return self._proved(borrowed, connection)

    def _proved(self, borrowed: BorrowedPages, connection: Connection) -> Borrowed | None:
        """Ids of pages that this process is going to index must be in the pool."""
        if not borrowed.in_place:
            return borrowed
        try:
            borrowed.verify()
        except StalePage:
            borrowed.release()
            return None
        except UnknownPage as error:
            borrowed.release()
            raise self._misbehaved(connection, str(error)) from error
        return borrowed

    def _may_send(self, connection: Connection) -> bool:
        """Process groups do not encrypt: between hosts of a cluster with certificates only if that was asked for."""
        if self._transfer == "collective":
            return True
        return self._transfer == "auto" and (not self._encrypted or connection.owner_host == self._me.host)

    def _give_back(self, loan: Loan) -> None:
        stop_at("data.borrower.releasing")
        with self._lock:
            tell = self._book.release(loan)
        if loan.reading is not None:
            loan.reading.end()
        link = self._links.numbered(loan.peer) if tell else None
        if link is not None:
            link.connection.end_leases([loan.lease], self._limits.answer_s)

    def _misbehaved(self, connection: Connection, what: str) -> PeerMisbehaved:
        connection.hang_up()
        self._keeper.wake()
        worker = connection.worker
        return PeerMisbehaved(f"worker {worker} lends what cannot be", worker=worker, cause=what)


_Asked = tuple[Link, DataRequest, int]


def _answer(asked: _Asked, until: float) -> DataReply | None:
    """None from one who has none in time, or no good one."""
    link, request, _ = asked
    try:
        return link.connection.finish(request, until)
    except TransferError as error:
        log.info("worker %s is passed over: %s", link.connection.worker, error)
        return None


def _request(model: str, layout: str, keys: PageKeys, ttl: float) -> tuple[DataRequest, int]:
    """And when it was made: a lease counts from then on."""
    asked = AcquirePages(model=model, layout=layout, keys=bytes(keys), ttl_ms=max(1, int(ttl * 1000)))
    return DataRequest(acquire=asked), now_ms()
