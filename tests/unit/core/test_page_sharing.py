"""Forks, leases, pins and quotas of pages, as an engine sees them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from omniflow_core import (
    InvalidArgument,
    OutOfPages,
    PageAllocator,
    PageError,
    PageRun,
    QuotaExceeded,
    RunReleased,
    StalePage,
    UnknownLease,
)

READER = 7


def ids(run: PageRun) -> list[int]:
    return memoryview(run).tolist()


def test_a_fork_is_told_what_to_copy_before_it_writes() -> None:
    allocator = PageAllocator(10)
    run = allocator.allocate(3)
    fork = run.share()
    with fork.write(1, 99) as copies:
        assert len(copies) == 2
        assert memoryview(copies.sources).tolist() == ids(run)[1:]
        assert memoryview(copies.targets).tolist() == ids(fork)[1:]
        assert np.frombuffer(memoryview(copies.targets), np.uint32).shape == (2,)
        run.release()
        assert allocator.counters()["held"] == 5
    assert ids(fork)[0] == 1
    assert allocator.counters()["held"] == 3
    with pytest.raises(RunReleased, match="PageCopies"):
        _ = copies.sources
    assert len(fork.write(0, 3)) == 0, "its own pages need no copy"


def test_a_write_that_finds_no_room_changes_nothing() -> None:
    allocator = PageAllocator(4)
    run = allocator.allocate(3)
    fork = run.share()
    with pytest.raises(OutOfPages, match="1 pages wanted, 0 are free"):
        fork.write(0, 1)
    assert ids(fork) == ids(run)


def test_a_run_in_pieces_says_where_they_are() -> None:
    allocator = PageAllocator(100)
    runs = [allocator.allocate(pages) for pages in (20, 1, 40, 38)]
    runs[0].release()
    runs[2].release()
    assert allocator.allocate(60).spans() == [(22, 40), (1, 20)]
    assert allocator.allocate(0).spans() == []


def test_expiry_of_a_lease_drops_that_hold_only() -> None:
    allocator = PageAllocator(10)
    run = allocator.allocate(4)
    first, second = run.lease(READER, until=10), run.share(1).lease(8, until=20)
    assert allocator.next_expiry == 10
    run.release()
    assert allocator.expire(9) == []
    assert allocator.expire(10) == [first]
    assert allocator.counters() | {"total": 0, "reserved": 0} == {
        "total": 0,
        "reserved": 0,
        "own": 9,
        "free": 8,
        "held": 1,
        "pinned": 0,
        "leased": 1,
        "references": 1,
        "leases": 1,
    }
    allocator.renew(second, now=19, until=30)
    with pytest.raises(UnknownLease) as caught:
        allocator.renew(first, now=11, until=30)
    assert caught.value.lease == first
    assert allocator.drop_holder(8) == 1
    assert allocator.next_expiry is None
    with pytest.raises(UnknownLease, match="ask for a new one"):
        allocator.end_lease(second)
    assert allocator.free_pages == 9
    allocator.check()


def test_a_reader_checks_the_generations_that_it_was_told() -> None:
    allocator = PageAllocator(10)
    run = allocator.allocate(3)
    pages, generations = np.frombuffer(memoryview(run), np.uint32), np.frombuffer(run.generations, np.uint64)
    lease = run.lease(READER, until=10)
    run.release()
    allocator.verify_all(pages, generations)
    allocator.end_lease(lease)
    with pytest.raises(StalePage) as caught:
        allocator.verify_all(pages, generations)
    assert caught.value.page == 1
    with pytest.raises(InvalidArgument, match="pages are of format"):
        allocator.verify_all(pages.astype(np.int64), generations)
    with pytest.raises(InvalidArgument, match="3 pages with 2 generations"):
        allocator.verify_all(pages, generations[:2])


def test_a_tenant_is_held_to_its_quota() -> None:
    allocator = PageAllocator(20)
    allocator.set_quota("ours", 5)
    run = allocator.allocate(4, tenant="ours")
    assert run.tenant == "ours"
    with pytest.raises(QuotaExceeded, match="raise its quota") as caught:
        run.extend(2)
    error = caught.value
    assert (error.tenant, error.wanted, error.used, error.quota) == ("ours", 2, 4, 5)
    assert isinstance(error, PageError)
    run.charge_to("theirs")
    run.extend(2)
    assert allocator.tenants() == {"ours": (4, 5), "theirs": (2, None)}
    run.release()
    allocator.set_quota("ours", None)
    assert allocator.tenants() == {}


def test_a_pin_holds_until_released_or_collected() -> None:
    allocator = PageAllocator(10)
    with allocator.allocate(3) as run:
        pin = run.pin()
        other = run.pin()
    assert allocator.counters()["pinned"] == 3
    other.release()
    other.release()
    assert allocator.counters()["held"] == 3
    del pin
    gc.collect()
    assert allocator.free_pages == 9
