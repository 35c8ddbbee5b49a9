"""What is closed at the worst moment is closed all the same."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from omniflow.v1.data_pb2 import LeaseAccount
from omniflow_workers.transfer import TransferLimits
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.lender import Lender
from omniflow_workers.transfer.lending import Borrower
from omniflow_workers.transfer.receiving import Receiver, Wish
from omniflow_workers.transfer.sending import Lane
from omniflow_workers.transfer.served import House
from tests.cluster_fixtures.data_plane import PATIENCE_S, identity
from tests.cluster_fixtures.tiny_source import TinySource


class Home:
    """A store's home that counts who is in it."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.inside = 0

    def enter(self) -> int:
        self.inside += 1
        return 1

    def leave(self) -> None:
        self.inside -= 1


def anything() -> Any:
    """For what is not looked at."""
    return None


def test_a_lane_that_is_closed_when_its_last_chunk_has_left_is_closed() -> None:
    class ClosedLate(Lane):
        def _send(self, *args: Any) -> None:
            self.close()  # another thread's: its sender holds the lock, and looks no more whether it goes on

    home: Any = Home()
    lane = ClosedLate(1, "gloo", "prefix", "127.0.0.1", home, PullCounts())
    lane.send(anything(), anything(), TransferLimits())
    assert home.inside == 0


def test_a_receiver_that_is_closed_when_its_pull_has_ended_lets_go_of_its_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []

    class Buffers:
        def close(self) -> None:
            closed.append(True)

    class Pulls(Receiver):
        def _pull_one(self, wish: Any) -> None:
            buffers: Any = Buffers()
            self._staging = buffers

    class ClosedLate:
        """A lock whose holder has looked whether it is closed, and lets go next."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._closes = True

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            return self._lock.acquire(blocking, timeout)

        def release(self) -> None:
            if self._closes:
                self._closes = False
                receiver.close()
            self._lock.release()

    receiver = Pulls(anything(), TransferLimits(), PullCounts())
    monkeypatch.setattr(receiver, "_lock", ClosedLate())

    wish = Wish(1, 0, anything(), anything(), "gloo", time.monotonic() + PATIENCE_S)
    receiver.pull(wish)
    assert closed == [True]


def test_rule_20_of_two_connections_of_a_borrower_that_come_at_once_the_earlier_is_hung_up_on() -> None:
    both_greeted = threading.Event()

    class Slow(Lender):
        def greet(self, borrower: Borrower) -> tuple[int, int | None]:
            greeted = super().greet(borrower)
            if borrower.epoch == 2:
                both_greeted.set()
            else:
                both_greeted.wait(0.5)  # the second may come now, if it can
            return greeted

    class Connection:
        hung_up = False

        def hang_up(self) -> None:
            self.hung_up = True

    lender = Slow([TinySource(8)], 60.0)
    house = House(identity("owner"), lender, anything(), TransferLimits(), anything())
    first: Any = Connection()
    second: Any = Connection()
    entering = threading.Thread(target=house.enter, args=(first, Borrower("ada", "1", 1)))
    entering.start()
    while not lender_has_greeted(lender):
        both_greeted.wait(0.001)
    house.enter(second, Borrower("ada", "1", 2))
    entering.join(PATIENCE_S)
    lender.close()
    assert (first.hung_up, second.hung_up) == (True, False)


def lender_has_greeted(lender: Lender) -> bool:
    account = LeaseAccount()
    lender.fill(account)
    return account.connections_now == 1
