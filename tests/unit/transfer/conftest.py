"""Workers in this process that share pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from omniflow_workers.transfer.pair import Pair
from omniflow_workers.transfer.store import LOOPBACK, StoreHome, join_store
from tests.cluster_fixtures.data_plane import PATIENCE_S, Plane, nothing_left_behind


@pytest.fixture(scope="session")
def torch_is_warm() -> None:
    """The first process group of a process leaves a thread and a pipe, whatever becomes of it."""
    home = StoreHome(LOOPBACK)
    port = home.enter()

    def meet(rank: int) -> None:
        Pair("gloo", join_store(LOOPBACK, port, "warm", PATIENCE_S), rank, LOOPBACK, PATIENCE_S).close()

    other = threading.Thread(target=meet, args=(0,))
    other.start()
    meet(1)
    other.join()
    home.leave()


@pytest.fixture
def plane(torch_is_warm: None) -> Iterator[Plane]:
    """Closed at the end; then nothing is left of it."""
    with nothing_left_behind():
        made = Plane()
        yield made
        made.close()
