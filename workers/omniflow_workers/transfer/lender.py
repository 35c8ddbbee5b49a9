"""Leases of this worker's pages: the book, the sources behind it, and the clock that ends them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from omniflow.v1.data_pb2 import AcquirePages, BeginPull, DataError, LeaseAccount, LeasesRenewed, PagesAcquired
from omniflow_core import InvalidArgument, PageKeys, UnknownLease
from omniflow_workers.stop_at import stop_at
from omniflow_workers.transfer.base import Acquired, PageIds, PageSource
from omniflow_workers.transfer.clock import now_ms
from omniflow_workers.transfer.errors import Refused
from omniflow_workers.transfer.lending import Borrower, Lending, LendingLimits, Over, Pull

log = logging.getLogger(__name__)


class Lender:
    """Safe to use from any thread. A source is never called under the lock."""

    def __init__(self, sources: Sequence[PageSource], max_lease_s: float, limits: LendingLimits | None = None) -> None:
        self._sources = list(sources)
        self._by_kind: dict[tuple[str, str], list[int]] = {}
        for index, source in enumerate(self._sources):
            self._by_kind.setdefault((source.model, source.layout), []).append(index)
        self._max_ms = int(max_lease_s * 1000)
        self._book = Lending(limits)
        self._changed = threading.Condition(threading.Lock())
        self._wakes_at: int | None = None
        """Not put off when the lease that it is for is released: most are, and each would wake the thread."""
        self._closing = False
        self._thread = threading.Thread(target=self._expire, name="data-expiry", daemon=True)
        self._thread.start()

    @property
    def max_lease_ms(self) -> int:
        return self._max_ms

    def close(self) -> None:
        """No lease expires any more. What is out is ended by `hang_up`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def greet(self, borrower: Borrower) -> tuple[int, int | None]:
        """Its number, and that of the connection whose place it takes. Raises `Refused`."""
        with self._changed:
            return self._book.greet(borrower)

    def hang_up(self, holder: int) -> None:
        """The connection is over, and with it what it held."""
        with self._changed:
            over = self._book.hang_up(holder)
        self._end(over)

    def acquire(self, holder: int, asked: AcquirePages) -> PagesAcquired:
        """Lends the longest known prefix. Raises `Refused`."""
        of_kind = self._by_kind.get((asked.model, asked.layout))
        if of_kind is None:
            raise self.refuse(DataError.UNKNOWN_SOURCE, f"no pages of model {asked.model[:12]} in {asked.layout} here")
        try:
            keys = PageKeys(asked.keys)
        except InvalidArgument as error:
            raise self.refuse(DataError.BAD_MESSAGE, str(error)) from error
        ttl_ms = min(asked.ttl_ms, self._max_ms)
        until = now_ms() + ttl_ms
        longest = self._longest(of_kind, keys, holder, until)
        if longest is None:
            return PagesAcquired()
        over, found = longest
        source = self._sources[over.source]
        try:
            with self._changed:
                lease = self._book.grant(holder, over, found.pages, until)
                if self._wakes_at is None or until < self._wakes_at:
                    self._wakes_at = until
                    self._changed.notify()
        except Refused:
            self._end([over])
            raise
        stop_at("data.owner.acquired")
        return PagesAcquired(
            lease=lease,
            ttl_ms=ttl_ms,
            pages=found.pages.tobytes(),
            generations=found.generations.tobytes(),
            pool=source.pool or b"",
            pool_owner=source.pool_owner,
            page_bytes=source.page_bytes,
            device=source.device,
        )

    def renew(self, holder: int, leases: Iterable[int], ttl_ms: int) -> LeasesRenewed:
        """Those that a source has ended by itself are gone, too."""
        ttl_ms = min(ttl_ms, self._max_ms)
        now = now_ms()
        with self._changed:
            renewed, gone = self._book.renew(holder, leases, now + ttl_ms)
        for hold in renewed:
            try:
                self._sources[hold.over.source].renew(hold.over.lease, now, now + ttl_ms)
            except UnknownLease:
                self.revoke(hold.lease)
                gone.append(hold.lease)
        stop_at("data.owner.renewed")
        return LeasesRenewed(ttl_ms=ttl_ms, gone=gone)

    def release(self, holder: int, leases: Iterable[int]) -> None:
        """Given back; those that have ended are passed over."""
        with self._changed:
            over = self._book.release(holder, leases)
        self._end(over)

    def revoke(self, lease: int) -> None:
        """Ends a lease; its borrower hears of it with the next reply, or finds its pages stale."""
        with self._changed:
            over = self._book.revoke(lease)
        self._end(over)

    def take_revoked(self, holder: int) -> list[int]:
        """To be told in a reply."""
        with self._changed:
            return self._book.take_revoked(holder)

    def begin_pull(self, holder: int, asked: BeginPull) -> tuple[Pull, PageSource, PageIds]:
        """What to send, and from where. Raises `Refused`."""
        with self._changed:
            pull = self._book.begin_pull(holder, asked.pull, asked.lease, asked.first, asked.count)
            hold = self._book.find(holder, asked.lease)
        pages = hold.pages[asked.first : asked.first + asked.count]
        return pull, self._sources[hold.over.source], pages

    def is_live(self, pull: Pull) -> bool:
        """Whether what has been read for it by now is what was leased, and it goes on."""
        with self._changed:
            if not self._book.is_live(pull):
                return False
            hold = self._book.find(pull.holder, pull.lease)
        try:
            self._sources[hold.over.source].renew(hold.over.lease, now_ms(), hold.until_ms)
        except UnknownLease:  # its source has ended it
            self.revoke(pull.lease)
            return False
        return True

    def is_out(self, lease: int) -> bool:
        """Whether the lease has not ended."""
        with self._changed:
            return self._book.is_out(lease)

    def sent(self, pull: Pull, count: int) -> None:
        with self._changed:
            self._book.sent(pull, count)

    def fail_pull(self, pull: Pull, code: DataError.Code.ValueType, message: str) -> None:
        with self._changed:
            self._book.fail_pull(pull, code, message)

    def finish_pull(self, holder: int, number: int) -> Pull:
        """Raises `Refused`."""
        with self._changed:
            return self._book.finish_pull(holder, number)

    def abort_pull(self, holder: int, number: int) -> None:
        with self._changed:
            self._book.abort_pull(holder, number)

    def refuse(self, code: DataError.Code.ValueType, message: str) -> Refused:
        """The error, counted."""
        with self._changed:
            return self._book.refuse(code, message)

    def fill(self, into: LeaseAccount) -> None:
        """The account of leases."""
        with self._changed:
            book, counts = self._book, self._book.counts
            into.CopyFrom(
                LeaseAccount(
                    connections_now=book.connections,
                    leases_now=book.leases,
                    pages_now=book.pages,
                    granted=counts.granted,
                    renewed=counts.renewed,
                    released=counts.released,
                    expired=counts.expired,
                    revoked=counts.revoked,
                    dropped=counts.dropped,
                    refused=counts.refused,
                )
            )

    def check(self) -> None:
        """Raises AssertionError for a broken invariant."""
        with self._changed:
            self._book.check()

    def _longest(
        self, sources: Iterable[int], keys: PageKeys, holder: int, until_ms: int
    ) -> tuple[Over, Acquired] | None:
        """Of what these sources lend; what the others do is given back."""
        longest: tuple[Over, Acquired] | None = None
        try:
            for index in sources:
                found = self._sources[index].acquire(keys, holder, until_ms)
                if found is None:
                    continue
                shorter: Over | None = Over(index, found.lease)
                if longest is None or len(found.pages) > len(longest[1].pages):
                    shorter, longest = longest and longest[0], (Over(index, found.lease), found)
                if shorter is not None:
                    self._end([shorter])
                if len(longest[1].pages) == len(keys):
                    break
        except BaseException:
            if longest is not None:
                self._end([longest[0]])
            raise
        return longest

    def _end(self, over: Iterable[Over]) -> None:
        for each in over:
            try:
                self._sources[each.source].end(each.lease)
            except UnknownLease:  # it has expired there, say
                continue

    def _expire(self) -> None:
        while True:
            with self._changed:
                if self._closing:
                    return
                now = now_ms()
                if self._wakes_at is not None and self._wakes_at > now:
                    self._changed.wait((self._wakes_at - now) / 1000)
                    continue
                over = self._book.expire(now)
                self._wakes_at = self._book.next_expiry
                if not over and self._wakes_at is None:
                    self._changed.wait()
            if over:
                log.warning("%d leases of pages were not renewed in time, and have ended", len(over))
            self._end(over)
