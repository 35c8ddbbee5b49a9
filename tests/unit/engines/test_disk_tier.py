"""Prompts whose pages are on disk: the same words, hardly anything computed, also in the next life of the worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omniflow.errors import InvalidArgument
from omniflow.roles import RoleContext
from omniflow.roles.memory import MemoryActivation, MemoryQueue
from omniflow.v1.data_pb2 import MemoryAccount, PoolAccount, StoredAccount
from omniflow_core import KeyChain, PageRun
from omniflow_workers.engines.torch import disk_tier
from omniflow_workers.engines.torch.disk_file import DiskOptions
from omniflow_workers.engines.torch.disk_tier import DiskTier
from omniflow_workers.engines.torch.service import Service, open_service
from omniflow_workers.roles.llm import Llm
from omniflow_workers.transfer import Borrowed, PagePool
from tests.cluster_fixtures.data_plane import PATIENCE_S, wait_until

PAGE, PAGE_BYTES = 8, 3072
QUESTION = "Which train goes to Basel, and when does it leave from the main station, and which goes to Bern?"


class Nobody:
    """There are no other workers."""

    def share(self, pool: PagePool) -> None:
        """Nobody reads there."""

    def workers(self, model: str, layout: str) -> list[str]:
        return []

    def acquire(self, *asked: object, **how: object) -> Borrowed | None:
        raise AssertionError("there is nobody to ask")

    best = acquire

    def account(self, into: MemoryAccount) -> None:
        """Nothing to say."""


class Worker:
    """An `llm` role of a tiny model that serves, until it is left."""

    def __init__(self, model: Path, cache: Path, name: str, options: dict[str, object]) -> None:
        self.role = Llm()
        given = {"model": str(model), "page_tokens": PAGE, "threads": 1, "reuse": "always", "kv_bytes": 64 * PAGE_BYTES}
        self.role.load(RoleContext(worker=name, options=given | options, cache=cache))
        self.role.meet(Nobody())
        self._queue = MemoryQueue(Llm)
        self._thread = threading.Thread(target=self.role.serve, args=(self._queue.typed,))
        self._thread.start()

    def ask(self, question: str = QUESTION) -> tuple[str, int]:
        """The answer, and how many tokens of the prompt were computed."""
        asked: MemoryActivation = self._queue.put("chat", question=question, max_tokens=12)
        assert asked.wait(PATIENCE_S)
        assert asked.error is None
        return "".join(asked.results()), int(asked.features["computed_tokens"])

    def settled(self) -> StoredAccount:
        """What is stored, once nothing waits to be."""
        wait_until(lambda: self._pool().stored.waiting_now == 0, "all pages are written")
        return self._pool().stored

    def evict(self) -> None:
        """Other prompts needed all the pages: none that is held for nothing is left."""
        self.settled()
        self.role.page_source.index.evict(1000)
        assert (self._pool().held, self._pool().references) == (0, 0)

    def _pool(self) -> PoolAccount:
        account = MemoryAccount()
        self.role.account(account)
        (pool,) = account.pools
        return pool

    def close(self) -> None:
        self._queue.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.role.unload()


Life = Callable[..., AbstractContextManager[Worker]]


@pytest.fixture
def worker(models: Callable[[str], Path], cache: Path) -> Life:
    """Lives of workers; those of one name have one file."""

    @contextmanager
    def life(name: str, **options: object) -> Iterator[Worker]:
        made = Worker(models("llama"), cache, name, options)
        try:
            yield made
        finally:
            made.close()

    return life


def files(cache: Path, name: str) -> list[Path]:
    return list((cache / "kv").glob(f"{name}.*"))


ROOM: dict[str, object] = {"kv_disk_bytes": 1 << 20}


def test_a_prompt_that_was_evicted_comes_back_from_disk_also_after_a_restart(worker: Life) -> None:
    with worker("plain") as plain:
        words, prompt = plain.ask()
    with worker("twice", **ROOM) as first:
        assert first.ask() == (words, prompt)
        first.evict()
        again, computed = first.ask()
        assert again == words
        assert computed <= PAGE
        stored = first.settled()
        assert (stored.hits, stored.damaged) == (1, 0)  # of an answer a page is skipped when the disk is slower than it
        assert stored.read == (prompt - 1) // PAGE
        assert stored.stored == stored.written >= stored.read
        first.evict()
    with worker("twice", **ROOM) as second:
        assert second.settled().stored == stored.stored
        again, computed = second.ask()
        assert again == words
        assert computed <= PAGE
        assert second.settled().written == 0
        second.evict()


def test_only_what_the_pool_lacks_is_read(worker: Life) -> None:
    with worker("some", **ROOM) as some:
        words, _ = some.ask()
        some.settled()
        some.role.page_source.index.evict(5)
        again, computed = some.ask()
        assert again == words
        assert computed <= PAGE
        assert 0 < some.settled().read <= 5


@pytest.mark.parametrize("page", [0, 3])
def test_a_damaged_page_is_computed_with_all_behind_it_and_is_whole_the_next_time(
    worker: Life, cache: Path, page: int
) -> None:
    name = f"damaged-{page}"
    with worker(name, **ROOM) as first:
        words, prompt = first.ask()
        first.settled()
        # As the file was made just now, its slots were filled in order.
        (file,) = files(cache, name)
        content = bytearray(file.read_bytes())
        slot = -(-PAGE_BYTES // 4096) * 4096
        data = len(content) - first.settled().total * slot
        content[data + page * slot + 1000] ^= 16
        file.write_bytes(content)
        first.evict()
        again, computed = first.ask()
        assert again == words
        assert computed == prompt - page * PAGE
        assert first.settled().damaged == 1
        first.evict()
        again, computed = first.ask()
        assert again == words
        assert computed <= PAGE
        assert first.settled().damaged == 1


def test_a_full_disk_keeps_the_beginning_of_a_prompt(worker: Life) -> None:
    with worker("small", kv_disk_bytes=8192 + 4 * 4192) as small:
        words, prompt = small.ask()
        stored = small.settled()
        assert (stored.total, stored.stored) == (4, 4)
        assert stored.skipped > 0
        small.evict()
        assert small.ask() == (words, prompt - 4 * PAGE)


def test_prompts_of_others_do_not_match(worker: Life) -> None:
    question = "A question that begins otherwise, so that its first page is another one."
    with worker("plain") as plain:
        computed = plain.ask(question)
    with worker("other", **ROOM) as other:
        other.ask()
        other.evict()
        assert other.ask(question) == computed
        assert other.settled().hits == 0


def test_a_file_that_is_in_use_costs_the_disk_and_nothing_else(worker: Life, caplog: pytest.LogCaptureFixture) -> None:
    with worker("same", **ROOM) as first, worker("same", **ROOM) as second:
        assert "give each worker a file of its own" in caplog.text
        assert first.ask() == second.ask()
        assert second.settled() == StoredAccount()
        assert first.settled().stored > 0


@pytest.mark.parametrize("size", [1 << 20, 1 << 19])
def test_a_file_of_another_size_or_that_was_cut_off_is_begun_anew(
    worker: Life, cache: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"resized-{size}"
    with worker(name, **ROOM) as first:
        words = first.ask()
        first.settled()
    (file,) = files(cache, name)
    if size == 1 << 20:
        with file.open("r+b") as whole:
            whole.truncate(100_000)
    with worker(name, kv_disk_bytes=size) as second:
        assert "begins anew" in caplog.text
        assert second.settled().stored == 0
        assert file.stat().st_size <= size
        assert second.ask() == words
        assert second.settled().stored > 0


def test_a_size_that_holds_no_page_is_refused_with_what_would_do(worker: Life) -> None:
    with pytest.raises(InvalidArgument) as caught, worker("tiny", kv_disk_bytes=100):
        pass
    assert caught.value.field == "kv_disk_bytes"
    assert str(8192 + 4192) in str(caught.value.cure)


def test_no_file_is_made_where_none_is_asked_for(worker: Life, cache: Path) -> None:
    with worker("without") as without:
        without.ask()
        assert without.settled() == StoredAccount()
    assert files(cache, "without") == []


class Held:
    """An engine's pages whose bytes cannot be had before the test says so. `rows`: how many are, at a time."""

    rows = 8

    def __init__(self, service: Service) -> None:
        assert service.disk is not None
        self.disk: DiskTier = service.disk
        self.allocator = service.pages.allocator
        self._pages = service.pages
        self._gather = service.pages.gather
        self.began, self.goes_on = threading.Event(), threading.Event()
        self.next = 0

    def gather(self, *given: Any) -> None:
        self.began.set()
        assert self.goes_on.wait(PATIENCE_S)
        self._gather(*given)

    def offer(self, pages: int) -> PageRun:
        chain, run = self.prompt(pages)
        self.disk.offer(chain.keys, run)
        return run

    def prompt(self, pages: int) -> tuple[KeyChain, PageRun]:
        """That nobody had before."""
        self.next += 1000
        chain = self._pages.new_chain("")
        chain.extend(np.arange(self.next, self.next + pages * PAGE))
        return chain, self.allocator.allocate(pages)


@pytest.fixture
def held(models: Callable[[str], Path], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    monkeypatch.setattr(disk_tier, "_STAGED_BYTES", Held.rows * PAGE_BYTES)
    disk = DiskOptions(tmp_path, ("one",), 1 << 20)
    service = open_service(str(models("llama")), cache, page_tokens=PAGE, kv_bytes=65 * PAGE_BYTES, disk=disk)
    made = Held(service)
    monkeypatch.setattr(service.pages, "gather", made.gather)
    yield made
    made.goes_on.set()
    made.disk.close()


def skipped(disk: DiskTier) -> int:
    account = StoredAccount()
    disk.account(account)
    return int(account.skipped)


def test_at_most_an_eighth_of_the_pool_waits_for_the_disk_and_the_rest_is_skipped_at_once(held: Held) -> None:
    runs = [held.offer(3), held.offer(5), held.offer(1), held.offer(9)]
    for run in runs:
        run.release()
    assert held.allocator.counters()["held"] == 8
    assert skipped(held.disk) == 10
    held.goes_on.set()
    wait_until(lambda: held.disk.idle, "all pages are written")
    assert held.allocator.counters()["references"] == 0


def test_a_prompt_alone_is_stored_however_long_it_is_and_let_go_of_when_its_pages_are_needed(held: Held) -> None:
    held.offer(40).release()
    assert held.began.wait(PATIENCE_S)
    assert held.allocator.counters()["held"] == 40
    assert not held.disk.give_way()
    held.goes_on.set()
    wait_until(lambda: held.disk.idle, "what is written has been")
    assert held.allocator.counters()["references"] == 0
    assert skipped(held.disk) == 40 - held.rows
    held.offer(40).release()
    wait_until(lambda: held.disk.idle, "all pages are written")
    assert skipped(held.disk) == 40 - held.rows


def test_a_prompt_that_is_offered_again_with_its_answer_waits_once(held: Held) -> None:
    chain, run = held.prompt(20)
    held.disk.offer(chain.keys, run)
    held.disk.offer(chain.keys, run)
    chain.extend(np.arange(PAGE))
    run.extend(1)
    held.disk.offer(chain.keys, run)
    run.release()
    held.goes_on.set()
    wait_until(lambda: held.disk.idle, "all pages are written")
    account = StoredAccount()
    held.disk.account(account)
    assert (account.written, account.skipped, account.waiting_now) == (21, 0, 0)
    assert held.allocator.counters()["references"] == 0


def test_what_waits_for_the_disk_gives_way_to_who_needs_the_pages(held: Held) -> None:
    held.offer(2).release()
    assert held.began.wait(PATIENCE_S)
    held.offer(4).release()
    assert held.allocator.counters()["held"] == 6
    assert held.disk.give_way()
    assert held.allocator.counters()["held"] == 2
    assert not held.disk.give_way()
    held.goes_on.set()
    wait_until(lambda: held.disk.idle, "all pages are written")
    assert held.allocator.counters()["references"] == 0
    assert skipped(held.disk) == 4


def test_what_waits_is_still_written_when_the_role_is_unloaded(held: Held) -> None:
    held.offer(2).release()
    held.offer(3).release()
    held.goes_on.set()
    held.disk.close()
    assert held.allocator.counters()["references"] == 0
    account = StoredAccount()
    held.disk.account(account)
    assert (account.written, account.waiting_now) == (5, 0)
