"""The cluster's index: who holds how much of a sequence."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from omniflow_core._native import ClusterIndex, InvalidArgument, KeyChain, PageKeys, UnknownPageKey


def chain(*tokens: int) -> KeyChain:
    """A sequence of pages of one token."""
    made = KeyChain("model", "layout", 1)
    made.extend(np.array(tokens, np.int32))
    return made


def test_each_worker_is_known_by_how_much_of_the_sequence_it_holds() -> None:
    index = ClusterIndex()
    index.insert(1, chain(5, 6, 7, 8))
    index.insert(2, chain(5, 6))
    index.insert(3, chain(5, 6, 9))
    index.insert(4, chain(1, 2))
    found = index.match(chain(5, 6, 7, 1))
    assert found.longest() == [(1, 3), (2, 2), (3, 2)]
    assert found.longest(1) == [(1, 3)]
    assert (found.pages, found.workers) == (3, 3)
    assert [found.pages_of(worker) for worker in (1, 2, 3, 4, 99)] == [3, 2, 2, 0, 0]
    assert index.match(chain(5, 6, 7, 1), max_pages=2).longest() == [(1, 2), (2, 2), (3, 2)]
    assert index.match(chain()).longest() == []
    assert (len(index), index.held, index.held_by(3), index.held_by(99)) == (7, 11, 3, 0)
    index.check()


def test_pages_are_reported_behind_those_before_them() -> None:
    index = ClusterIndex()
    keys = chain(1, 2, 3, 4).keys
    index.insert(1, keys[:2])
    inserted = index.insert(1, keys[1:], after=bytes(keys[:1]))
    assert (inserted.present, inserted.added) == (1, 2)
    assert index.match(keys).longest() == [(1, 4)]
    with pytest.raises(UnknownPageKey, match="report the pages before it first"):
        index.insert(2, keys[2:], after=bytes(keys[1:2]))
    with pytest.raises(UnknownPageKey, match="is not in the index"):
        index.insert(1, keys, after=bytes(chain(9).keys))
    assert index.held_by(2) == 0


def test_what_a_worker_loses_is_gone_with_all_behind_it() -> None:
    index = ClusterIndex()
    keys = chain(1, 2, 3, 4).keys
    for worker in (1, 2):
        index.insert(worker, keys)
    assert index.remove(1, keys[3:]) == 1
    assert index.remove(1, keys[3:]) == 0
    assert index.remove(1, keys[1:2]) == 2
    assert index.match(keys).longest() == [(2, 4), (1, 1)]
    assert index.remove_worker(2) == 4
    assert index.remove_worker(2) == 0
    assert (len(index), index.held) == (1, 1)
    index.check()


def test_a_match_is_of_its_time() -> None:
    index = ClusterIndex()
    index.insert(1, chain(1, 2))
    found = index.match(chain(1, 2))
    index.remove_worker(1)
    index.insert(2, chain(1))
    assert found.longest() == [(1, 2)]
    assert index.match(chain(1, 2)).longest() == [(2, 1)]


def test_bad_arguments_are_named() -> None:
    index = ClusterIndex()
    with pytest.raises(InvalidArgument, match="after has 3 bytes"):
        index.insert(1, chain(1), after=b"abc")
    with pytest.raises(InvalidArgument, match="keys of one chain"):
        index.insert(1, PageKeys(bytes(chain(1).keys) * 2))
    with pytest.raises(InvalidArgument, match="must be a KeyChain or PageKeys"):
        index.match(bytes(chain(1).keys))  # type: ignore[arg-type]
    assert len(index) == 0


def test_threads_report_and_ask_at_once() -> None:
    index = ClusterIndex()
    shared = chain(*range(64))
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for round_ in range(200):
                own = shared.fork()
                own.extend(np.array([worker, round_], np.int32))
                index.insert(worker, own)
                assert index.match(own).pages_of(worker) == 66
                index.remove(worker, own.keys[32:])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (len(index), index.held) == (32, 4 * 32)
    index.check()
