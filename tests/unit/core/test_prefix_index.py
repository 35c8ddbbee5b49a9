"""The prefix index over the pages of one allocator: reuse, eviction and who holds what."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from omniflow_core._native import (
    ForeignRun,
    InvalidArgument,
    KeyChain,
    KeysWithoutPages,
    OutOfPages,
    PageAllocator,
    PageKeys,
    PrefixIndex,
    RunReleased,
)

PAGE = 4


def chain(*tokens: int) -> KeyChain:
    """A sequence that has each token for a whole page."""
    made = KeyChain("model", "layout", PAGE)
    made.extend(np.repeat(np.array(tokens, np.int32), PAGE))
    return made


def keys(*tokens: int) -> PageKeys:
    """Its keys."""
    return chain(*tokens).keys


def remember(index: PrefixIndex, allocator: PageAllocator, *tokens: int) -> list[int]:
    """What a finished sequence leaves behind."""
    with allocator.allocate(len(tokens)) as run:
        index.insert(keys(*tokens), run)
        return memoryview(run).tolist()


@pytest.fixture
def allocator() -> PageAllocator:
    return PageAllocator(21)


@pytest.fixture
def index(allocator: PageAllocator) -> PrefixIndex:
    return PrefixIndex(allocator)


def test_a_second_sequence_starts_with_the_pages_of_the_first(allocator: PageAllocator, index: PrefixIndex) -> None:
    pages = remember(index, allocator, 1, 2, 3)
    match = index.match(keys(1, 2, 9))
    assert match.pages == 2
    assert np.asarray(match, np.uint32).tolist() == pages[:2]
    run = match.run()
    match.release()
    run.extend(1)
    assert np.asarray(run, np.uint32).tolist()[:2] == pages[:2]
    inserted = index.insert(keys(1, 2, 9), run)
    assert (inserted.present, inserted.added) == (2, 1)
    run.release()
    assert (len(index), allocator.free_pages) == (4, 16)
    index.check()
    allocator.check()


def test_nothing_known_is_an_empty_match(allocator: PageAllocator, index: PrefixIndex) -> None:
    match = index.match(keys(1, 2))
    assert match.pages == 0
    assert memoryview(match).tolist() == []
    run = match.run()
    run.extend(2)
    assert len(run) == 2
    assert index.match(keys()).pages == 0


def test_a_match_is_cut_where_the_engine_must_still_compute(allocator: PageAllocator, index: PrefixIndex) -> None:
    remember(index, allocator, 1, 2, 3)
    assert index.match(keys(1, 2, 3), max_pages=2).pages == 2
    assert index.match(keys(1, 2, 3), max_pages=0).pages == 0
    assert index.match(keys(1, 2, 3)[:1]).pages == 1


def test_a_chain_stands_for_its_keys(allocator: PageAllocator, index: PrefixIndex) -> None:
    grown = chain(1, 2, 3)
    with allocator.allocate(2) as run:
        inserted = index.insert(grown, run, max_pages=2)
    assert (inserted.present, inserted.added, index.match(grown).pages) == (0, 2, 2)
    grown.extend(np.repeat(np.array([4], np.int32), PAGE))
    assert index.match(grown).pages == 2
    assert index.match(grown, max_pages=1).pages == 1
    grown.truncate(PAGE)
    assert index.match(grown).pages == 1


def test_a_match_inside_a_sequence_keeps_its_pages_and_lets_the_rest_go(
    allocator: PageAllocator, index: PrefixIndex
) -> None:
    pages = remember(index, allocator, 1, 2, 3, 4)
    match = index.match(keys(1, 2, 9))
    assert index.evict(100) == 2
    with match.run() as run:
        match.release()
        assert np.asarray(run, np.uint32).tolist() == pages[:2]
        remember(index, allocator, 1, 2, 5)
        assert index.match(keys(1, 2, 5)).pages == 3
    gc.collect()
    assert index.evict(100) == 3
    index.check()


def test_pages_known_twice_stay_those_of_the_first(allocator: PageAllocator, index: PrefixIndex) -> None:
    first = remember(index, allocator, 1, 2)
    remember(index, allocator, 1, 2)
    assert np.asarray(index.match(keys(1, 2)), np.uint32).tolist() == first
    assert allocator.free_pages == 18


def test_eviction_gives_back_the_least_recently_used_leaves(allocator: PageAllocator, index: PrefixIndex) -> None:
    remember(index, allocator, 1, 2, 3)
    remember(index, allocator, 4, 5)
    index.match(keys(1, 2, 3)).release()
    assert index.evictable_pages == 5
    assert index.evict(3) == 3
    assert index.match(keys(4)).pages == 0
    assert index.match(keys(1, 2, 3)).pages == 2
    gc.collect()
    assert index.evict(100) == 2
    assert (len(index), allocator.free_pages) == (0, 20)
    index.check()


def test_what_somebody_holds_is_not_evicted(allocator: PageAllocator, index: PrefixIndex) -> None:
    remember(index, allocator, 1, 2, 3)
    remember(index, allocator, 1, 7)
    match = index.match(keys(1, 2))
    assert index.evictable_pages == 2
    assert index.evict(100) == 2
    run = match.run()
    match.release()
    assert index.evict(100) == 0, "the run still holds the pages"
    run.release()
    assert index.evict(100) == 2
    assert allocator.free_pages == 20


def test_a_match_keeps_its_pages_until_with_ends(allocator: PageAllocator, index: PrefixIndex) -> None:
    remember(index, allocator, 1, 2)
    with index.match(keys(1, 2)) as match:
        assert index.evict(2) == 0
    assert index.evict(2) == 2
    for use in (match.run, lambda: memoryview(match)):
        with pytest.raises(RunReleased):
            use()


def test_make_room_evicts_just_enough(allocator: PageAllocator, index: PrefixIndex) -> None:
    remember(index, allocator, 1, 2, 3, 4, 5, 6)
    running = allocator.allocate(12)
    assert allocator.free_pages == 2
    assert index.make_room(2) == 0
    assert index.make_room(5) == 3
    assert len(allocator.allocate(5)) == 5
    assert len(running) == 12


def test_make_room_evicts_nothing_when_it_cannot_be_enough(allocator: PageAllocator, index: PrefixIndex) -> None:
    remember(index, allocator, 1, 2, 3)
    running = allocator.allocate(15)
    with pytest.raises(OutOfPages) as caught:
        index.make_room(6)
    assert (caught.value.wanted, caught.value.free) == (6, 5)
    assert (len(index), len(running)) == (3, 15)


def test_bad_insertions_are_refused_and_change_nothing(allocator: PageAllocator, index: PrefixIndex) -> None:
    run = allocator.allocate(1)
    with pytest.raises(KeysWithoutPages) as caught:
        index.insert(keys(1, 2), run)
    assert (caught.value.keys, caught.value.pages) == (2, 1)
    with pytest.raises(ForeignRun):
        index.insert(keys(1), PageAllocator(4).allocate(1))
    with pytest.raises(InvalidArgument, match="make PageKeys of bytes"):
        index.insert(bytes(keys(1)), run)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="keys of one chain"):
        index.insert(PageKeys(bytes(keys(1)) * 2), allocator.allocate(2))
    run.release()
    with pytest.raises(RunReleased):
        index.insert(keys(1), run)
    gc.collect()
    assert (len(index), allocator.free_pages) == (0, 20)
    index.check()


def test_pages_come_back_when_the_index_goes(allocator: PageAllocator) -> None:
    index = PrefixIndex(allocator)
    remember(index, allocator, 1, 2)
    match = index.match(keys(1, 2))
    del index
    gc.collect()
    assert match.pages == 2
    del match
    gc.collect()
    assert allocator.free_pages == 20


def test_threads_match_insert_and_evict_without_losing_a_page() -> None:
    allocator = PageAllocator(129)
    index = PrefixIndex(allocator)
    failures: list[BaseException] = []

    def serve(seed: int) -> None:
        try:
            random = np.random.default_rng(seed)
            for _ in range(150):
                sequence = keys(*random.integers(0, 3, size=random.integers(1, 9)).tolist())
                with index.match(sequence) as match, match.run() as run:
                    run.extend(len(sequence) - match.pages)
                    index.insert(sequence, run)
                    index.make_room(40)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    index.check()
    allocator.check()
    index.evict(len(index))
    assert allocator.free_pages == 128
