"""The borrower's side of pulls: chunks received over a process group of the two, and spread over pages."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omniflow.v1.data_pb2 import AbortPull, BeginPull, DataError, DataRequest, FinishPull, PullBegun
from omniflow_workers.stop_at import stop_at
from omniflow_workers.transfer.base import PageIds, PageSource
from omniflow_workers.transfer.connection import Connection
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.errors import PeerLost, PullFailed, Refused, TransferError, stale
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.pair import BORROWER, Pair, tag_of
from omniflow_workers.transfer.staging import BUFFERS, Staging, staging_device
from omniflow_workers.transfer.store import LOOPBACK, join_store, say_ready

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Wish:
    """What one pull wants. `until`: on `time.monotonic`."""

    lease: int
    first: int
    sink: PageSource
    target: PageIds
    backend: str
    until: float


class Receiver:
    """This side's end of what is pulled over one connection. Pulls go one after the other."""

    def __init__(self, connection: Connection, limits: TransferLimits, counts: PullCounts) -> None:
        self._connection = connection
        self._limits = limits
        self._counts = counts
        self._lock = threading.Lock()
        self._pull = 0
        self._group = 1
        self._backend = ""
        self._pair: Pair | None = None
        self._staging: Staging | None = None
        self._closed = False

    def pull(self, wish: Wish) -> None:
        """All pages of the wish are there when this returns. When it raises, nothing more is written to them.

        Raises `StalePage`, `PullFailed`, `PeerLost`, `PeerMisbehaved`, `Refused`.
        """
        if not self._lock.acquire(timeout=max(0.0, wish.until - time.monotonic())):
            raise PullFailed("another pull from the same worker takes too long", worker=self._connection.worker)
        self._counts.add(receiving_now=1)
        try:
            if self._closed:
                raise PeerLost("the connection has ended", worker=self._connection.worker)
            self._pull_one(wish)
            self._counts.add(finished=1)
        except BaseException:
            self._counts.add(aborted=1)
            raise
        finally:
            self._counts.add(receiving_now=-1)
            self._lock.release()
            self._tidy_up()

    def close(self) -> None:
        """At once if nothing is pulled, else when that ends, which is soon: the connection has ended."""
        self._closed = True
        self._tidy_up()

    def _tidy_up(self) -> None:
        """After `close`. Who holds the lock looks again after having let go of it: nothing is left open."""
        if self._closed and self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _pull_one(self, wish: Wish) -> None:
        if wish.backend != self._backend:
            self._drop()
            self._backend = wish.backend
        self._pull += 1
        chunk_pages = max(1, min(self._limits.chunk_bytes // wish.sink.page_bytes, len(wish.target)))
        begun = self._begin(wish, chunk_pages)
        stop_at("data.borrower.pull_begun")
        try:
            self._receive_all(wish, begun, chunk_pages)
        except BaseException as error:
            # What is under way may still be written: to buffers that are given up with the group.
            self._drop()
            self._explain(error)
            raise
        stop_at("data.borrower.finishing")
        self._finish()

    def _begin(self, wish: Wish, chunk_pages: int) -> PullBegun:
        asked = BeginPull(
            pull=self._pull,
            lease=wish.lease,
            first=wish.first,
            count=len(wish.target),
            chunk_pages=chunk_pages,
            group=self._group,
            backend=wish.backend,
            within_ms=int(max(0.0, wish.until - time.monotonic()) * 1000),
        )
        try:
            return self._connection.ask(DataRequest(begin_pull=asked), self._limits.answer_s).pull_begun
        except Refused as error:
            raise _translated(error) from error

    def _receive_all(self, wish: Wish, begun: PullBegun, chunk_pages: int) -> None:
        pair = self._met(begun, wish.until)
        stop_at("data.borrower.group_made")
        staging = self._room(wish, chunk_pages)
        starts = range(0, len(wish.target), chunk_pages)

        def rows_of(chunk: int) -> torch.Tensor:
            return staging.rows_of(chunk, min(chunk_pages, len(wish.target) - chunk * chunk_pages))

        for chunk in range(min(BUFFERS, len(starts))):
            pair.receive(rows_of(chunk), tag_of(self._pull, chunk))
        for chunk, start in enumerate(starts):
            pair.wait(tag_of(self._pull, chunk), min(self._limits.stall_s, wish.until - time.monotonic()))
            rows = rows_of(chunk)
            count = len(rows)
            wish.sink.scatter(wish.target[start : start + count], rows)
            self._counts.add(received_pages=count, received_bytes=rows.nbytes)
            stop_at("data.borrower.chunk_received")
            if chunk + BUFFERS < len(starts):
                pair.receive(rows_of(chunk + BUFFERS), tag_of(self._pull, chunk + BUFFERS))

    def _met(self, begun: PullBegun, until: float) -> Pair:
        if self._pair is None:
            patience = max(0.1, min(self._limits.group_s, until - time.monotonic()))
            host, _, port = begun.store.rpartition(":")
            if not port.isdigit():
                raise PullFailed(f"the owner's store is said to be at {begun.store!r}", worker=self._connection.worker)
            store = join_store(host, int(port), begun.prefix, patience)
            say_ready(store)
            self._pair = Pair(self._backend, store, BORROWER, self._connection.local_host or LOOPBACK, patience)
            self._counts.add(groups_now=1)
        return self._pair

    def _room(self, wish: Wish, chunk_pages: int) -> Staging:
        wanted = (chunk_pages, wish.sink.page_bytes, staging_device(wish.backend, wish.sink.device))
        if self._staging is not None and not self._staging.fits(*wanted):
            self._staging.close()
            self._staging = None
        if self._staging is None:
            self._staging = Staging(*wanted, self._counts)
        return self._staging

    def _finish(self) -> None:
        try:
            self._connection.ask(DataRequest(finish_pull=FinishPull(pull=self._pull)), self._limits.answer_s)
        except Refused as error:
            self._drop()
            raise _translated(error) from error

    def _explain(self, error: BaseException) -> None:
        """Ends the failed pull at its owner; raises what that knows better."""
        number = self._pull
        try:
            if isinstance(error, PullFailed):
                self._connection.ask(DataRequest(finish_pull=FinishPull(pull=number)), self._limits.answer_s)
            else:
                self._connection.tell(DataRequest(abort_pull=AbortPull(pull=number)), self._limits.answer_s)
        except Refused as refused:
            if refused.code_number == DataError.STALE_PAGE:
                raise _translated(refused) from error
        except TransferError as lost:
            raise lost from error

    def _drop(self) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.close()
            self._counts.add(groups_now=-1)
        self._group += 1
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.close()


def _translated(error: Refused) -> Exception:
    match error.code_number:
        case DataError.STALE_PAGE | DataError.UNKNOWN_LEASE:
            return stale(error.message)
        case _:
            return PullFailed(error.message, worker=error.worker, cure=error.cure)
