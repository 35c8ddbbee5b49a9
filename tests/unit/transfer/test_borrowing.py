"""What a borrower believes that it holds, it holds: its ends come no later than the owner's, whatever gets lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_workers.transfer.borrowing import Borrowing, Loan
from omniflow_workers.transfer.lending import Borrower, Lending, Over

PAGES = np.array([1, 2, 3], np.uint32)
PEER = 5

steps = st.lists(
    st.tuples(
        st.sampled_from(["borrow", "tick", "release", "revoke", "hang up", "renewal lost", "answer lost"]),
        st.integers(0, 30),
    ),
    max_size=60,
)


class Both:
    """An owner's book and a borrower's, each with a clock of its own, and messages that take time."""

    def __init__(self, apart: int) -> None:
        self.apart = apart
        self.now = 1_000
        self.owner = Lending()
        self.mine = Borrowing()
        self.loans: list[Loan] = []
        self.connect()

    def connect(self) -> None:
        self.epoch = getattr(self, "epoch", 0) + 1
        self.holder, _ = self.owner.greet(Borrower("ada", "1", self.epoch))
        self.peer = PEER + self.epoch

    @property
    def owners_now(self) -> int:
        return self.now + self.apart

    def borrow(self, under_way: int) -> None:
        asked = self.now
        self.now += under_way
        lease = self.owner.grant(self.holder, Over(0, 0), PAGES, self.owners_now + 20)
        self.now += under_way
        self.loans.append(self.mine.granted(self.peer, lease, PAGES, None, asked, 20))

    def tick(self, passed: int, *, lost: bool = False, unanswered: bool = False) -> None:
        self.now += passed
        self.owner.expire(self.owners_now)
        for peer, loans in self.mine.due(self.now).items():
            if lost or peer != self.peer:
                continue
            _, gone = self.owner.renew(self.holder, [loan.lease for loan in loans], self.owners_now + 20)
            if not unanswered:
                self.mine.renewed(loans, gone, self.now, 20)

    def believed(self) -> list[Loan]:
        return [loan for loan in self.loans if not loan.lost and not loan.released and loan.until_ms > self.now]


@given(steps=steps, apart=st.integers(-500, 500))
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_a_loan_that_is_believed_in_is_held_at_its_owner_unless_that_took_it_back(
    steps: list[tuple[str, int]], apart: int
) -> None:
    world = Both(apart)
    revoked: set[int] = set()
    for what, number in steps:
        loan = world.loans[number % len(world.loans)] if world.loans else None
        if what == "borrow":
            world.borrow(number % 8)
        elif what == "tick":
            world.tick(number)
        elif what == "renewal lost":
            world.tick(number, lost=True)
        elif what == "answer lost":
            world.tick(number, unanswered=True)
        elif what == "hang up":
            world.owner.hang_up(world.holder)
            world.mine.hung_up(world.peer)
            world.connect()
        elif loan is not None and what == "release":
            if world.mine.release(loan):
                world.owner.release(world.holder, [loan.lease])
        elif loan is not None and what == "revoke":
            world.owner.revoke(loan.lease)
            revoked.add(loan.lease)
        world.owner.expire(world.owners_now)
        assert all(world.owner.is_out(loan.lease) or loan.lease in revoked for loan in world.believed())
    for loan in world.loans:
        if world.mine.release(loan):
            world.owner.release(world.holder, [loan.lease])
    world.tick(100)
    assert (world.owner.leases, world.mine.loans, world.mine.orphans) == (0, 0, 0)


class Told:
    """A `Reading` that notes what it is told."""

    def __init__(self) -> None:
        self.until = 0

    def renew(self, until_ms: int, /) -> None:
        self.until = until_ms

    def end(self) -> None:
        self.until = -1


def test_pages_in_place_are_read_on_when_their_owner_has_gone() -> None:
    mine = Borrowing()
    loan = mine.granted(PEER, 1, PAGES, Told(), 0, 300)
    mine.hung_up(PEER)
    assert loan.lost
    assert mine.due_orphans(50) == [loan]
    assert loan.until_ms == 350
    assert mine.due_orphans(60) == []
    assert mine.next_due == 150
    assert mine.release(loan) is False
    assert mine.orphans == 0


def test_a_lease_is_renewed_at_a_third_of_its_time() -> None:
    mine = Borrowing()
    loan = mine.granted(PEER, 1, PAGES, None, 0, 300)
    assert (mine.next_due, mine.due(99)) == (100, {})
    assert mine.due(100) == {PEER: [loan]}
    assert mine.due(101) == {}, "named once"
    mine.renewed([loan], [], 100, 300)
    assert (loan.until_ms, mine.next_due) == (400, 200)


def test_a_lease_that_cannot_be_renewed_now_is_named_again_until_its_end() -> None:
    mine = Borrowing()
    loan = mine.granted(PEER, 1, PAGES, None, 0, 300)
    assert mine.due(100) == {PEER: [loan]}
    mine.put_off([loan], 150)
    assert (mine.next_due, mine.due(149)) == (150, {})
    assert mine.due(150) == {PEER: [loan]}
    mine.put_off([loan], 400)
    assert mine.due(300) == {}
    assert loan.lost
