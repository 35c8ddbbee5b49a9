"""Pulls over process groups, between workers of this process: what comes is what was lent, or nothing is used."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_core import StalePage
from omniflow_workers.transfer import Borrowed, DataPeers, PageIds, PullFailed, TransferLimits
from tests.cluster_fixtures.data_plane import PATIENCE_S, Plane, wait_until
from tests.cluster_fixtures.tiny_source import MODEL, TinySource, keys_of

LAYOUT = "bytes"
SMALL = TransferLimits(chunk_bytes=3 * 4096, group_s=PATIENCE_S, stall_s=PATIENCE_S)
"""Three pages in a send."""


class Watched(TinySource):
    """Something happens before its pages are gathered for the n-th time."""

    def __init__(self, pages: int = 64) -> None:
        super().__init__(pages)
        self.gathered = 0
        self.before: Callable[[int], None] = lambda _: None

    def gather(self, pages: PageIds, into: torch.Tensor, /) -> None:
        self.gathered += 1
        self.before(self.gathered)
        super().gather(pages, into)


def borrow(peers: DataPeers, worker: str = "owner", pages: int = 16) -> Borrowed:
    return peers.acquire(worker, MODEL, LAYOUT, keys_of(1, pages)) or pytest.fail("it lends nothing")


def pulls_of(peers: DataPeers) -> MemoryAccount:
    account = MemoryAccount()
    peers.account(account)
    return account


def is_idle(plane: Plane, worker: str, source: TinySource) -> bool:
    """Whether an owner has nothing to do with anybody."""
    account = plane.services[worker].account()
    return account.pulls.sending_now == account.leases.leases_now == source.leased == 0


def test_pages_come_in_chunks_and_are_what_was_lent(plane: Plane) -> None:
    owner, mine = Watched(), TinySource(64)
    owner.compute(1, 16)
    plane.lend("owner", owner, limits=SMALL)
    peers = plane.borrow(limits=SMALL)
    with mine.take(16) as run, borrow(peers) as borrowed:
        target = np.array(run)
        report = borrowed.pull(mine, target)
        assert (report.pages, report.bytes, report.way) == (16, 16 * 4096, "collective")
        assert mine.holds(1, target)
        assert owner.gathered == 6
        borrowed.pull(mine, target[:5], first=7)
        assert mine.holds(1, target[:5], first=7)
    wait_until(lambda: is_idle(plane, "owner", owner), "the end of everything")
    account = pulls_of(peers)
    assert (account.pulls.received_pages, account.pulls.receiving_now, account.pulls.groups_now) == (21, 0, 1)
    most = 2 * SMALL.chunk_bytes
    assert account.pulls.staging_bytes_now <= most
    assert plane.services["owner"].account().pulls.staging_bytes_now <= most


def test_two_borrowers_pull_the_same_pages_at_once(plane: Plane) -> None:
    owner = Watched()
    owner.compute(1, 16)
    plane.lend("owner", owner, limits=SMALL)
    both = threading.Barrier(2)

    def meet(count: int) -> None:
        if count <= 2:
            both.wait(PATIENCE_S)

    owner.before = meet
    sinks = {name: TinySource(64) for name in ("ada", "ben")}
    right: dict[str, bool] = {}

    def pull(name: str, peers: DataPeers) -> None:
        sink = sinks[name]
        with sink.take(16) as run, borrow(peers) as borrowed:
            borrowed.pull(sink, np.array(run), timeout=PATIENCE_S)
            right[name] = sink.holds(1, np.array(run))

    threads = [threading.Thread(target=pull, args=(name, plane.borrow(name, limits=SMALL))) for name in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == {"ada": True, "ben": True}
    wait_until(lambda: is_idle(plane, "owner", owner), "the end of everything")


def test_a_lease_that_ends_while_its_pages_are_read_makes_them_stale(plane: Plane) -> None:
    owner, mine = Watched(), TinySource(64)
    owner.compute(1, 16)
    plane.lend("owner", owner, limits=SMALL)
    peers = plane.borrow(limits=SMALL)

    def end_it(count: int) -> None:
        if count == 3:  # its source ends it: the pages are others' from now on
            for number in range(64):
                try:
                    owner.end(number)
                except Exception:
                    continue
            owner.index.evict(16)
            owner.rows[:] = 0

    owner.before = end_it
    with mine.take(16) as run, borrow(peers) as borrowed:
        with pytest.raises(StalePage):
            borrowed.pull(mine, np.array(run))
        assert borrowed.lost
    wait_until(lambda: is_idle(plane, "owner", owner), "the end of everything")
    assert pulls_of(peers).pulls.groups_now == 0


def test_an_owner_that_cannot_read_its_pages_fails_the_pull_and_nothing_else(plane: Plane) -> None:
    owner, mine = Watched(), TinySource(64)
    owner.compute(1, 16)
    plane.lend("owner", owner, limits=SMALL)
    peers = plane.borrow(limits=SMALL)

    def fail(count: int) -> None:
        if count == 2:
            raise RuntimeError("the device is gone")

    owner.before = fail
    with mine.take(16) as run, borrow(peers) as borrowed:
        with pytest.raises(PullFailed):
            borrowed.pull(mine, np.array(run))
        borrowed.pull(mine, np.array(run))
        assert mine.holds(1, np.array(run))
    wait_until(lambda: is_idle(plane, "owner", owner), "the end of everything")


def test_a_late_chunk_of_an_aborted_pull_is_written_nowhere(plane: Plane) -> None:
    """Rule 20: the owner hangs, the borrower gives up and pulls again, and then the first one goes on."""
    owner, mine = Watched(), TinySource(64)
    owner.compute(1, 16)
    plane.lend("owner", owner, limits=SMALL)
    peers = plane.borrow(limits=SMALL)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(count: int) -> None:
        if count == 8:  # six made the two meet
            hangs.set()
            assert goes_on.wait(PATIENCE_S)

    owner.before = hang
    with mine.take(16) as first, mine.take(16) as second, borrow(peers) as borrowed:
        borrowed.pull(mine, np.array(first), timeout=PATIENCE_S)
        with pytest.raises(PullFailed):
            borrowed.pull(mine, np.array(first), timeout=1.0)
        assert hangs.wait(PATIENCE_S)
        untouched = mine.rows[np.array(first)].copy()
        borrowed.pull(mine, np.array(second), timeout=PATIENCE_S)
        goes_on.set()
        wait_until(lambda: plane.services["owner"].account().pulls.sending_now == 0, "the first one's end")
        assert mine.holds(1, np.array(second))
        assert np.array_equal(mine.rows[np.array(first)], untouched)
    wait_until(lambda: is_idle(plane, "owner", owner), "the end of everything")


def test_pages_of_another_size_are_not_pulled(plane: Plane) -> None:
    owner, mine = Watched(), TinySource(64, 8192)
    owner.compute(1, 16)
    plane.lend("owner", owner)
    with mine.take(16) as run, borrow(plane.borrow()) as borrowed, pytest.raises(PullFailed, match="8192"):
        borrowed.pull(mine, np.array(run))
