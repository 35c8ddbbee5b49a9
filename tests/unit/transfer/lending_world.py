"""A book of leases over a real allocator, beside which a naive account is kept: every lease, until when, whose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from omniflow_core import PageAllocator
from omniflow_workers.transfer.errors import Refused
from omniflow_workers.transfer.lending import Borrower, Lending, Over, Pull

PAGES = 64
WORKERS = ("ada", "ben", "cyd")


@dataclass
class Expected:
    """What the naive account says of one lease."""

    holder: int
    source_lease: int
    until: int


class LendingWorld(RuleBasedStateMachine):
    """Borrowers come, borrow, renew, pull, give back, hang up, come again, and die, in any order."""

    book_class: type[Lending] = Lending

    def __init__(self) -> None:
        super().__init__()
        self.book = self.book_class()
        self.allocator = PageAllocator(PAGES)
        self.run = self.allocator.allocate(PAGES - 1)
        self.now = 0
        self.epochs = 0
        self.open: dict[int, str] = {}
        self.expected: dict[int, Expected] = {}
        self.pulls: dict[int, Pull] = {}
        self.numbers = 0

    def end(self, over: list[Over]) -> None:
        for each in over:
            self.allocator.end_lease(each.lease)

    def forget(self, holder: int) -> None:
        self.expected = {lease: each for lease, each in self.expected.items() if each.holder != holder}
        self.pulls.pop(holder, None)
        del self.open[holder]

    @rule(name=st.sampled_from(WORKERS))
    def greet(self, name: str) -> None:
        self.epochs += 1
        holder, earlier = self.book.greet(Borrower(name, "first life", self.epochs))
        assert earlier == next((number for number, who in self.open.items() if who == name), None)
        if earlier is not None:  # as the service does
            self.end(self.book.hang_up(earlier))
            self.forget(earlier)
        self.open[holder] = name

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def greet_late(self, data: st.DataObject) -> None:
        """An earlier connection's first word, on its way for long."""
        name = self.open[data.draw(st.sampled_from(sorted(self.open)))]
        with pytest.raises(Refused, match="is over"):
            self.book.greet(Borrower(name, "first life", 0))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), pages=st.integers(1, PAGES - 1), ttl=st.integers(1, 20))
    def grant(self, data: st.DataObject, pages: int, ttl: int) -> None:
        holder = data.draw(st.sampled_from(sorted(self.open)))
        with self.run.share(pages) as shared:
            source_lease = shared.lease(holder, self.now + ttl)
            lease = self.book.grant(holder, Over(0, source_lease), np.array(shared, np.uint32), self.now + ttl)
        self.expected[lease] = Expected(holder, source_lease, self.now + ttl)

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), ttl=st.integers(1, 20))
    def renew(self, data: st.DataObject, ttl: int) -> None:
        lease = data.draw(st.sampled_from(sorted(self.expected)))
        expected = self.expected[lease]
        renewed, gone = self.book.renew(expected.holder, [lease, 10**9], self.now + ttl)
        assert ([hold.lease for hold in renewed], gone) == ([lease], [10**9])
        expected.until = max(expected.until, self.now + ttl)
        self.allocator.renew(expected.source_lease, self.now, expected.until)

    @precondition(lambda self: self.expected and len(self.open) > 1)
    @rule(data=st.data())
    def meddle(self, data: st.DataObject) -> None:
        """What one borrows is no other one's to renew, pull or end."""
        lease = data.draw(st.sampled_from(sorted(self.expected)))
        other = data.draw(st.sampled_from(sorted(set(self.open) - {self.expected[lease].holder})))
        assert self.book.renew(other, [lease], self.now + 50) == ([], [lease])
        assert self.book.release(other, [lease]) == []

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), twice=st.booleans())
    def release(self, data: st.DataObject, twice: bool) -> None:
        lease = data.draw(st.sampled_from(sorted(self.expected)))
        holder = self.expected.pop(lease).holder
        self.end(self.book.release(holder, [lease] * (2 if twice else 1)))
        assert lease not in self.book.take_revoked(holder)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.expected)))
        holder = self.expected.pop(lease).holder
        self.end(self.book.revoke(lease))
        assert lease in self.book.take_revoked(holder)

    @rule(passed=st.integers(1, 15))
    def expire(self, passed: int) -> None:
        self.now += passed
        over = {lease for lease, each in self.expected.items() if each.until <= self.now}
        self.end(self.book.expire(self.now))
        told = {lease for holder in self.open for lease in self.book.take_revoked(holder)}
        assert told == over
        for lease in over:
            del self.expected[lease]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def hang_up(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.open)))
        self.end(self.book.hang_up(holder))
        assert self.book.hang_up(holder) == []
        self.forget(holder)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def begin_pull(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.expected)))
        holder = self.expected[lease].holder
        self.numbers += 1
        self.pulls[holder] = self.book.begin_pull(holder, self.numbers, lease, 0, 1)

    @precondition(lambda self: self.pulls)
    @rule(data=st.data())
    def finish_pull(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.pulls)))
        pull = self.pulls.pop(holder)
        assert self.book.finish_pull(holder, pull.number) is pull
        assert not self.book.is_live(pull)

    @precondition(lambda self: self.pulls)
    @rule(data=st.data())
    def late_words_of_an_earlier_pull(self, data: st.DataObject) -> None:
        """Rule 20: a late completion is ignored by its epoch."""
        holder = data.draw(st.sampled_from(sorted(self.pulls)))
        pull = self.pulls[holder]
        live = self.book.is_live(pull)
        self.book.abort_pull(holder, pull.number - 1)
        with pytest.raises(Refused, match="is over"):
            self.book.finish_pull(holder, pull.number - 1)
        assert self.book.is_live(pull) == live

    @invariant()
    def book_is_sound(self) -> None:
        self.book.check()
        assert self.book.leases == len(self.expected)

    @invariant()
    def pages_are_leased_to_those_who_hold_them(self) -> None:
        """Neither more, which is a leak, nor fewer, which is a page read by one and written by another."""
        assert self.allocator.counters()["leases"] == len(self.expected)

    @invariant()
    def a_pull_is_live_only_with_its_lease(self) -> None:
        for pull in self.pulls.values():
            assert self.book.is_live(pull) == (pull.lease in self.expected)

    @invariant()
    def next_expiry_comes_in_time(self) -> None:
        if self.expected:
            first = min(each.until for each in self.expected.values())
            assert self.book.next_expiry is not None
            assert self.book.next_expiry <= first

    def teardown(self) -> None:
        for holder in list(self.open):
            self.end(self.book.hang_up(holder))
        self.run.release()
        counters = self.allocator.counters()
        assert (counters["held"], counters["leases"], self.book.pages, self.book.pulls) == (0, 0, 0, 0)
