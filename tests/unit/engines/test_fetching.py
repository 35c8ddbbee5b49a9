"""Whoever stalls over pages holds up nobody: what is not there in time is computed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import pytest

from omniflow_core import KeyChain, PageAllocator, PageKeys, PageRun, PrefixIndex
from omniflow_workers.engines.costs import PrefillRate
from omniflow_workers.engines.fetching import Fetching, Reuse
from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.sequence import Sequence
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.transfer import PageIds, PageSource, PullFailed, PullReport
from tests.cluster_fixtures.data_plane import PATIENCE_S, wait_until

PAGE = 4
PAGES = 8  # of a prompt, that others have


class Pages:
    """An engine's, without content."""

    model, layout, page_tokens, page_bytes = "model", "layout", PAGE, 64

    def __init__(self) -> None:
        self.allocator = PageAllocator(256)
        self.index = PrefixIndex(self.allocator)

    def new_chain(self, tenant: str) -> KeyChain:
        return KeyChain(self.model, self.layout, PAGE, tenant.encode())

    def known(self, keys: PageKeys, most: int) -> int:
        with self.index.match(keys, max_pages=most) as match:
            return match.pages

    def keep(self, keys: PageKeys, most: int) -> PageRun:
        with self.index.match(keys, max_pages=most) as match:
            return match.run()

    def take_in(self, keys: PageKeys, run: PageRun) -> None:
        self.index.insert(keys, run)

    def extend(self, run: PageRun, pages: int) -> None:
        run.extend(pages)


class Stalling:
    """Others who have every page, and send none until they may."""

    in_place = False
    worker = "stalling"

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.timeouts: list[float] = []
        self.firsts: list[int] = []
        self.pages = np.arange(PAGES, dtype=np.uint32)

    def workers(self, model: str, layout: str) -> list[str]:
        return [self.worker]

    def best(self, model: str, layout: str, keys: PageKeys, *, ttl: float = 10.0, within: float = 1.0) -> Self:
        return self

    def pull(self, sink: PageSource, target: PageIds, *, first: int = 0, timeout: float = 30.0) -> PullReport:
        self.timeouts.append(timeout)
        self.firsts.append(first)
        if not self.goes_on.wait(PATIENCE_S):
            raise PullFailed("nothing comes", worker=self.worker)
        return PullReport(len(target), 1000, 0.001, "collective")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Given back."""


class Disk:
    """This worker's, with the first pages of every prompt; `damaged` of these turn out not to be there."""

    def __init__(self, pages: int = 3, damaged: int = 0) -> None:
        self.pages = pages
        self.damaged = damaged
        self.read_after: list[int] = []

    def follow(self, keys: PageKeys, known: int) -> int:
        return max(0, self.pages - known)

    def read(self, keys: PageKeys, run: PageRun, known: int) -> int:
        self.read_after.append(known)
        return len(run) - known - self.damaged

    def used(self, keys: PageKeys) -> None:
        """Well."""


class Reader:
    """Who asked for an answer."""

    cancelled = False

    def text(self, pieces: list[Piece]) -> int:
        return len(pieces)

    def done(self, summary: Summary) -> None:
        """Well."""

    def failed(self, error: Exception) -> None:
        """Well."""


def stands_in(made: object) -> Any:
    """For what has more methods than are used here."""
    return made


class World:
    """One engine's fetching, and others who stall."""

    def __init__(self, reuse: Reuse = "auto", seconds_a_token: float | None = None, disk: Disk | None = None) -> None:
        self.pages = stands_in(Pages())
        self.others = stands_in(Stalling())
        rate = PrefillRate()
        if seconds_a_token is not None:
            rate.computed(100, 100 * seconds_a_token)
        self.fetching = Fetching(self.pages, self.others, rate, reuse, stands_in(disk))
        self._prompts = 0

    def request(self) -> Request:
        """For a prompt that nobody asked for before."""
        self._prompts += 1
        tokens = [1000 * self._prompts + i for i in range(PAGES * PAGE + 1)]
        return Request(Sequence("s", tokens, 4), IncrementalText(lambda ids: ""), Reader())

    def found(self) -> list[Request]:
        found: list[Request] = []
        while self.fetching.waiting:
            found += self.fetching.found(PATIENCE_S)
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.others.goes_on.set()
    made.fetching.close()


@pytest.mark.parametrize(
    ("reuse", "seconds_a_token", "timeout"),
    [("auto", 1e-3, 0.5), ("auto", 0.1, 2 * PAGES * PAGE * 0.1), ("auto", None, 2.0), ("always", 1e-3, 10.0)],
)
def test_pages_are_waited_for_no_longer_than_twice_what_computing_them_takes(
    reuse: Reuse, seconds_a_token: float | None, timeout: float
) -> None:
    world = World(reuse, seconds_a_token)
    world.others.goes_on.set()
    assert world.fetching.begin(world.request())
    world.found()
    world.fetching.close()
    assert world.others.timeouts == [pytest.approx(timeout)]


def test_what_comes_while_all_who_look_are_stuck_is_computed(world: World) -> None:
    begun = 0

    def another_begins() -> bool:
        nonlocal begun
        begins = world.fetching.begin(world.request())
        begun += begins
        return begins

    wait_until(lambda: not another_begins(), "one that is not looked for")
    world.others.goes_on.set()
    assert len(world.found()) == begun >= 4
    assert len(world.others.timeouts) <= begun
    assert another_begins(), "they are free again"
    world.found()


def test_a_request_that_is_cancelled_while_it_is_looked_for_is_told_once_and_keeps_nothing(world: World) -> None:
    unwanted, wanted = world.request(), world.request()
    for request in (unwanted, wanted):
        assert world.fetching.begin(request)
    wait_until(lambda: len(world.others.timeouts) == 2, "two pulls")
    assert world.fetching.cancelled() == []
    unwanted.listener.cancelled = True  # type: ignore[misc]
    assert world.fetching.cancelled() == [unwanted]
    assert world.fetching.cancelled() == []
    world.others.goes_on.set()
    assert world.found() == [wanted]
    assert unwanted.sequence.kept is None
    assert wanted.sequence.kept is not None
    wanted.sequence.kept.release()
    world.pages.index.evict(2 * PAGES)
    assert world.pages.allocator.counters()["held"] == 0


def test_nothing_is_looked_for_that_is_cancelled_before_a_thread_is_free(world: World) -> None:
    request = world.request()
    request.listener.cancelled = True  # type: ignore[misc]
    assert world.fetching.begin(request)
    assert world.found() == [request]
    assert world.others.timeouts == []


@pytest.mark.parametrize("damaged", [0, 1, 3])
def test_others_are_asked_only_for_what_is_not_on_disk(damaged: int) -> None:
    world = World("always", disk=Disk(3, damaged))
    world.others.goes_on.set()
    request = world.request()
    assert world.fetching.begin(request)
    assert world.found() == [request]
    world.fetching.close()
    assert world.others.firsts == [3 - damaged]
    run = request.sequence.kept
    assert run is not None
    assert len(run) == PAGES
    run.release()
    world.pages.index.evict(PAGES)
    assert world.pages.allocator.counters()["held"] == 0


def test_what_somebody_has_just_computed_for_a_prompt_comes_before_the_disk() -> None:
    disk = Disk(PAGES)
    world = World("auto", disk=disk)
    world.others.goes_on.set()
    assert world.fetching.begin(world.request(), handed_over=True)
    world.found()
    world.fetching.close()
    assert world.others.firsts == [0]
    assert disk.read_after == []


def test_the_disk_is_read_also_when_nothing_of_others_is_wanted() -> None:
    disk = Disk(PAGES)
    world = World("never", disk=disk)
    request = world.request()
    assert world.fetching.begin(request)
    assert world.found() == [request]
    assert (disk.read_after, world.others.timeouts) == ([0], [])
    assert not world.fetching.begin(request), "all is in the pool"
    world.fetching.close()
