"""Pages borrowed from another worker, until released."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from omniflow_workers.transfer.base import Generations, PageIds, PagePool, PageSource, PullReport, Way
from omniflow_workers.transfer.borrowing import Loan
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.errors import PullFailed, stale
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.receiving import Receiver, Wish
from omniflow_workers.transfer.staging import Staging

DEFAULT_PULL_S = 30.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What was lent, and how it may come. `pool`: in which it is read in place; `backend`: by which it is sent."""

    worker: str
    loan: Loan
    generations: Generations
    page_bytes: int
    device: str
    pool: PagePool | None
    receiver: Receiver


class BorrowedPages:
    """`Borrowed`. One that is collected unreleased is released then."""

    def __init__(
        self,
        terms: Terms,
        give_back: Callable[[Loan], None],
        abandon: Callable[[Loan], None],
        limits: TransferLimits,
        counts: PullCounts,
    ) -> None:
        """`abandon`: gives it back later, without a lock."""
        self._terms = terms
        self._abandon = abandon
        self._give_back = give_back
        self._limits = limits
        self._counts = counts
        self._released = False

    @property
    def worker(self) -> str:
        return self._terms.worker

    @property
    def pages(self) -> PageIds:
        return self._terms.loan.pages

    @property
    def generations(self) -> Generations:
        return self._terms.generations

    @property
    def in_place(self) -> bool:
        return self._terms.pool is not None

    @property
    def page_bytes(self) -> int:
        return self._terms.page_bytes

    @property
    def lost(self) -> bool:
        return self._terms.loan.lost

    def verify(self) -> None:
        if self._released:
            raise stale("the pages were released before they were verified: verify first")
        if self._terms.pool is not None:
            self._terms.pool.verify_all(self.pages, self.generations)
        elif self.lost:
            raise stale(f"the lease of worker {self.worker}'s pages has ended")

    def pull(self, sink: PageSource, target: PageIds, *, first: int = 0, timeout: float = DEFAULT_PULL_S) -> PullReport:
        """As in `Borrowed`."""
        started = time.monotonic()
        count = len(target)
        if not 0 <= first <= first + count <= len(self.pages):
            raise ValueError(f"pages {first} to {first + count} of {len(self.pages)} that were borrowed")
        if sink.page_bytes != self.page_bytes:
            sizes = f"its pages have {self.page_bytes} bytes, those here {sink.page_bytes}"
            raise PullFailed(f"pages of worker {self.worker} do not fit: {sizes}", worker=self.worker)
        if count and self.in_place:
            self._copy(sink, target, first)
        elif count:
            self._receive(sink, target, first, started + timeout)
        way: Way = "local" if self.in_place else "collective"
        return PullReport(count, count * self.page_bytes, time.monotonic() - started, way)

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._give_back(self._terms.loan)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        # Wherever this thread happens to be: it may hold any lock.
        if not self._released:
            self._released = True
            self._abandon(self._terms.loan)

    def _copy(self, sink: PageSource, target: PageIds, first: int) -> None:
        """From where they lie in the pool, through a bounded buffer."""
        rows = max(1, min(self._limits.chunk_bytes // self.page_bytes, len(target)))
        staging = Staging(rows, self.page_bytes, sink.device, self._counts)
        try:
            for start in range(0, len(target), rows):
                part = target[start : start + rows]
                lying = staging.rows_of(0, len(part))
                sink.gather(self.pages[first + start : first + start + len(part)], lying)
                sink.scatter(part, lying)
        finally:
            staging.close()
        self.verify()
        self._counts.add(copied_pages=len(target))

    def _receive(self, sink: PageSource, target: PageIds, first: int, until: float) -> None:
        if self._released or self.lost:
            raise stale(f"the lease of worker {self.worker}'s pages has ended")
        cuda = sink.device.startswith("cuda") and self._terms.device.startswith("cuda")
        wish = Wish(self._terms.loan.lease, first, sink, target, "nccl" if cuda else "gloo", until)
        self._terms.receiver.pull(wish)
