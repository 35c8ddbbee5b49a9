"""The owner's side of pulls: pages gathered into chunks, and sent over a process group of the two."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from omniflow.v1.data_pb2 import BeginPull, DataError, PullBegun
from omniflow_workers.stop_at import stop_at
from omniflow_workers.transfer.base import PageIds, PageSource
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.errors import PullFailed
from omniflow_workers.transfer.lender import Lender
from omniflow_workers.transfer.lending import Pull
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.pair import OWNER, Pair, tag_of
from omniflow_workers.transfer.staging import Staging, staging_device
from omniflow_workers.transfer.store import StoreHome, await_ready, join_store

log = logging.getLogger(__name__)

_MOST_THREADS = 4
"""Of one connection: one sends, the others are about to hear that their pull is over."""


@dataclass(frozen=True, slots=True)
class Order:
    """What one pull sends."""

    pull: Pull
    source: PageSource
    pages: PageIds
    chunk_pages: int
    until: float


class Lane:
    """The owner's end of one group, and what it sends from. Used by one thread at a time."""

    def __init__(self, number: int, backend: str, prefix: str, host: str, home: StoreHome, counts: PullCounts) -> None:
        self.number = number
        self.prefix = prefix
        self.port = home.enter()
        self._backend = backend
        self._host = host
        self._home = home
        self._counts = counts
        self._lock = threading.Lock()
        self._pair: Pair | None = None
        self._staging: Staging | None = None
        self._closed = False
        self._left = False

    def send(self, order: Order, lender: Lender, limits: TransferLimits) -> None:
        """Raises `PullFailed`; the lane is closed then. Returns early when the pull is over."""
        try:
            with self._lock:
                try:
                    if self._closed:
                        raise PullFailed("the process group of the two has broken")
                    self._send(order, lender, limits)
                except BaseException:
                    self._close()
                    raise
        finally:
            self._tidy_up()

    def close(self) -> None:
        """At once if nobody sends, else when that ends."""
        self._closed = True
        self._tidy_up()

    def _tidy_up(self) -> None:
        """After `close`. Who holds the lock looks again after having let go of it: nothing is left open."""
        if self._closed and self._lock.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._lock.release()

    def _send(self, order: Order, lender: Lender, limits: TransferLimits) -> None:
        pair = self._met(limits.group_s)
        staging = self._room(order)
        moving: list[int] = []
        for chunk, start in enumerate(range(0, len(order.pages), order.chunk_pages)):
            pages = order.pages[start : start + order.chunk_pages]
            rows = staging.rows_of(chunk, len(pages))
            if len(moving) > 1:
                pair.wait(moving.pop(0), _patience(order, limits))
            order.source.gather(pages, rows)
            if not self._goes_on(order, lender):
                raise PullFailed("the pull is over")
            tag = tag_of(order.pull.number, chunk)
            pair.send(rows, tag)
            moving.append(tag)
            lender.sent(order.pull, rows.nbytes)
            self._counts.add(sent_pages=len(pages), sent_bytes=rows.nbytes)
            stop_at("data.owner.chunk_sent")
        for tag in moving:
            pair.wait(tag, _patience(order, limits))

    def _met(self, patience: float) -> Pair:
        if self._pair is None:
            store = join_store(self._home.host, self.port, self.prefix, patience)
            await_ready(store, lambda: not self._closed, patience)
            self._pair = Pair(self._backend, store, OWNER, self._host, patience)
            self._counts.add(groups_now=1)
        return self._pair

    def _room(self, order: Order) -> Staging:
        device = staging_device(self._backend, order.source.device)
        wanted = (order.chunk_pages, order.source.page_bytes, device)
        if self._staging is not None and not self._staging.fits(*wanted):
            self._staging.close()
            self._staging = None
        if self._staging is None:
            self._staging = Staging(*wanted, self._counts)
        return self._staging

    def _goes_on(self, order: Order, lender: Lender) -> bool:
        """Asked after each gathering: what was gathered is what was leased."""
        if self._closed:
            return False
        if lender.is_live(order.pull):
            return True
        if not lender.is_out(order.pull.lease):
            lender.fail_pull(order.pull, DataError.STALE_PAGE, "the lease ended while its pages were read")
        return False

    def _close(self) -> None:
        self._closed = True
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.close()
            self._counts.add(groups_now=-1)
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.close()
        if not self._left:
            self._left = True
            self._home.leave()


class Sender:
    """The lanes of one connection. `begin` and `close` are its thread's alone."""

    def __init__(self, name: str, lender: Lender, home: StoreHome, limits: TransferLimits, counts: PullCounts) -> None:
        """`name`: of the connection, unlike that of any other one to this process."""
        self._name = name
        self._lender = lender
        self._home = home
        self._limits = limits
        self._counts = counts
        self._lane: Lane | None = None
        self._threads: list[threading.Thread] = []

    def begin(self, holder: int, asked: BeginPull, host: str) -> PullBegun:
        """Starts to send, on a thread of its own. `host`: by which this side is reached. Raises `Refused`."""
        lender = self._lender
        pull, source, pages = lender.begin_pull(holder, asked)
        if problem := self._problem(asked, source):
            lender.abort_pull(holder, asked.pull)
            raise lender.refuse(DataError.BAD_MESSAGE, problem)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= _MOST_THREADS:
            lender.abort_pull(holder, asked.pull)
            raise lender.refuse(DataError.OVERLOADED, "earlier pulls of this connection have not ended yet")
        lane = self._lane_of(asked, host)
        within = min(asked.within_ms / 1000, self._limits.pull_s)
        order = Order(pull, source, pages, asked.chunk_pages, time.monotonic() + within)
        thread = threading.Thread(target=self._run, args=(lane, order), name="data-send", daemon=True)
        self._threads.append(thread)
        thread.start()
        stop_at("data.owner.pull_begun")
        return PullBegun(pull=asked.pull, store=f"{self._home.reached_by(host)}:{lane.port}", prefix=lane.prefix)

    def close(self) -> None:
        """Nothing more is sent; threads end by themselves soon."""
        if self._lane is not None:
            self._lane.close()
            self._lane = None

    def join(self, until: float) -> None:
        """Waits for them."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _problem(self, asked: BeginPull, source: PageSource) -> str:
        if asked.backend not in ("gloo", "nccl") or (asked.backend == "nccl" and not source.device.startswith("cuda")):
            return f"pages on {source.device} are not sent by {asked.backend[:20]!r}"
        most = max(1, self._limits.max_chunk_bytes // source.page_bytes)
        if not 1 <= asked.chunk_pages <= most:
            return f"chunks of {asked.chunk_pages} pages: 1 to {most} are sent at once"
        return ""

    def _lane_of(self, asked: BeginPull, host: str) -> Lane:
        lane = self._lane
        if lane is None or lane.number != asked.group:
            self.close()
            prefix = f"{self._name}/{asked.group}"
            lane = Lane(asked.group, asked.backend, prefix, host, self._home, self._counts)
            self._lane = lane
        return lane

    def _run(self, lane: Lane, order: Order) -> None:
        self._counts.add(sending_now=1)
        try:
            lane.send(order, self._lender, self._limits)
        except PullFailed as error:
            self._counts.add(aborted=1)
            self._lender.fail_pull(order.pull, DataError.CANNOT_TRANSFER, str(error))
        except Exception as error:  # the source's: its pages cannot be read
            log.exception("pages cannot be gathered to be sent")
            self._counts.add(aborted=1)
            self._lender.fail_pull(order.pull, DataError.INTERNAL, f"its pages cannot be gathered: {error}")
        finally:
            self._counts.add(sending_now=-1)


def _patience(order: Order, limits: TransferLimits) -> float:
    return min(limits.stall_s, order.until - time.monotonic())
