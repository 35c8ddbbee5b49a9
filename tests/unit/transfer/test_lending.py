"""Who holds what until when: nothing is lent longer than it should be, and nothing stays lent."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from omniflow.v1.data_pb2 import DataError
from omniflow_workers.transfer.errors import Refused
from omniflow_workers.transfer.lending import Borrower, Lending, LendingLimits, Over
from tests.unit.transfer.lending_world import LendingWorld

ENOUGH = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    # The smallest failure is worth the time only when somebody has to read it.
    report_multiple_bugs=False,
)
NOT_SHRUNK = settings(ENOUGH, phases=[Phase.generate])


def test_whatever_happens_every_page_is_leased_to_exactly_those_who_hold_it() -> None:
    run_state_machine_as_test(LendingWorld, settings=ENOUGH)


class KeepsWhatHangsUp(Lending):
    """A release is taken out: that of a connection's end."""

    def hang_up(self, holder: int) -> list[Over]:
        return super().hang_up(holder)[1:]


class KeepsWhatIsReleased(Lending):
    """A release is taken out: the borrower's own."""

    def release(self, holder: int, leases: Iterable[int]) -> list[Over]:
        super().release(holder, leases)
        return []


class KeepsWhatExpires(Lending):
    """A release is taken out: that of time."""

    def expire(self, now_ms: int) -> list[Over]:
        super().expire(now_ms)
        return []


@pytest.mark.parametrize("broken", [KeepsWhatHangsUp, KeepsWhatIsReleased, KeepsWhatExpires])
def test_the_leak_test_fails_when_a_release_is_taken_out(broken: type[Lending]) -> None:
    class Broken(LendingWorld):
        book_class = broken

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=NOT_SHRUNK)


def test_more_borrowers_than_it_takes_are_refused() -> None:
    book = Lending(LendingLimits(connections=1))
    book.greet(Borrower("ada", "1", 1))
    with pytest.raises(Refused) as refused:
        book.greet(Borrower("ben", "1", 1))
    assert refused.value.code_number == DataError.OVERLOADED
    assert book.counts.refused == 1


def test_those_who_look_at_the_account_take_nobodys_place() -> None:
    book = Lending()
    assert [book.greet(Borrower("", "", 0))[1] for _ in range(2)] == [None, None]


def test_a_new_life_of_a_borrower_takes_the_place_of_the_last_one() -> None:
    book = Lending()
    first, _ = book.greet(Borrower("ada", "first", 7))
    assert book.greet(Borrower("ada", "second", 1))[1] == first
