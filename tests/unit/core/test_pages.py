"""Page allocator and runs, as an engine sees them."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from omniflow_core._native import (
    CoreError,
    InvalidArgument,
    OutOfPages,
    PageAllocator,
    PageError,
    PageRun,
    RunReleased,
    StalePage,
    UnknownPage,
)


def ids(run: PageRun) -> list[int]:
    return memoryview(run).tolist()


def test_a_run_is_a_buffer_of_consecutive_page_ids() -> None:
    allocator = PageAllocator(16, reserved=2)
    run = allocator.allocate(5)
    view = memoryview(run)
    assert (view.format, view.itemsize, view.shape, view.readonly) == ("I", 4, (5,), True)
    assert view.tolist() == [2, 3, 4, 5, 6]
    assert np.asarray(view).dtype == np.uint32
    assert len(run) == 5
    assert (allocator.total_pages, allocator.reserved_pages, allocator.free_pages) == (16, 2, 9)


def test_page_ids_cannot_be_written() -> None:
    run = PageAllocator(4).allocate(2)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(run, np.uint32)[0] = 3


def test_an_empty_run_is_an_empty_buffer_that_grows() -> None:
    run = PageAllocator(4).allocate(0)
    assert memoryview(run).tolist() == []
    run.extend(2)
    assert ids(run) == [1, 2]


def test_a_buffer_stays_as_it_was_when_its_run_changes_or_goes() -> None:
    allocator = PageAllocator(64)
    run = allocator.allocate(3)
    before = np.asarray(run, np.uint32)
    run.extend(40)
    run.truncate(1)
    run.release()
    del run
    gc.collect()
    assert before.tolist() == [1, 2, 3]
    assert allocator.free_pages == 63


def test_pages_are_free_only_when_the_last_run_over_them_is_gone() -> None:
    allocator = PageAllocator(10)
    run = allocator.allocate(4)
    shared = run.share(2)
    run.release()
    assert allocator.free_pages == 7
    assert ids(shared) == [1, 2]
    shared.release()
    shared.release()
    assert allocator.free_pages == 9
    allocator.check()


def test_a_run_gives_its_pages_back_at_the_end_of_with_and_when_collected() -> None:
    allocator = PageAllocator(10)
    with pytest.raises(RuntimeError, match="inside"), allocator.allocate(3) as run:
        raise RuntimeError("inside")
    assert run.released
    assert len(run) == 0
    run = allocator.allocate(3)
    del run
    gc.collect()
    assert allocator.free_pages == 9


def test_out_of_pages_says_how_many_and_allocates_nothing() -> None:
    allocator = PageAllocator(10)
    run = allocator.allocate(6)
    with pytest.raises(OutOfPages, match="4 pages wanted, 3 are free") as caught:
        run.extend(4)
    assert (caught.value.wanted, caught.value.free) == (4, 3)
    assert (len(run), allocator.free_pages) == (6, 3)


def test_a_released_run_is_refused_everywhere() -> None:
    run = PageAllocator(4).allocate(1)
    run.release()
    for use in (lambda: run.extend(1), lambda: run.truncate(0), run.share, lambda: memoryview(run)):
        with pytest.raises(RunReleased, match="allocate or match again"):
            use()


def test_a_freed_page_is_stale_for_who_noted_its_generation() -> None:
    allocator = PageAllocator(4)
    run = allocator.allocate(1)
    noted = allocator.generation(1)
    allocator.verify(1, noted)
    run.release()
    with pytest.raises(StalePage) as caught:
        allocator.verify(1, noted)
    assert (caught.value.page, caught.value.generation, caught.value.current) == (1, noted, noted + 1)


def test_pages_that_are_never_handed_out_are_unknown() -> None:
    allocator = PageAllocator(4)
    for page in (0, 4):
        with pytest.raises(UnknownPage) as caught:
            allocator.generation(page)
        assert caught.value.page == page


def test_a_pool_without_pages_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="give it more pages"):
        PageAllocator(1)


def test_every_error_of_pages_can_be_caught_at_the_root() -> None:
    assert issubclass(OutOfPages, PageError)
    assert issubclass(PageError, CoreError)
    assert OutOfPages.__module__ == "omniflow_core._native"


def test_threads_share_an_allocator_without_losing_a_page() -> None:
    allocator = PageAllocator(401)
    one = allocator.allocate(1)
    failures: list[BaseException] = []

    def churn() -> None:
        try:
            for turn in range(400):
                with allocator.allocate(turn % 20) as run, run.share(turn % 5) as shared, one.share() as third:
                    run.extend(3)
                    assert len(shared) + len(third) == min(turn % 5, turn % 20) + 1
                    assert len(set(ids(run))) == len(run)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert allocator.free_pages == 399
    allocator.check()
