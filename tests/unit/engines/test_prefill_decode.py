"""Prompts computed by one worker and answered by another: the words of one worker, whatever became of the pages."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import pytest
import torch

from omniflow.errors import Cancelled, InvalidArgument
from omniflow.roles import RoleContext
from omniflow.roles.memory import MemoryActivation, MemoryQueue
from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_core import PageKeys
from omniflow_workers.roles.llm import Llm
from omniflow_workers.roles.llm_decode import LlmDecode
from omniflow_workers.roles.llm_engine import LlmEngine
from omniflow_workers.roles.llm_prefill import LlmPrefill
from omniflow_workers.roles.llm_prefilled import Prefilled
from omniflow_workers.transfer import Acquired, Generations, PageIds, PagePool, PageSource, PeerLost, PullReport
from tests.cluster_fixtures.data_plane import Plane

QUESTION = "Which train goes to Basel, and when does it leave from the main station?"
PATIENCE_S = 30.0
SAMPLINGS: list[dict[str, Any]] = [{}, {"temperature": 1.2, "top_p": 0.95, "seed": 31}]

R = TypeVar("R", bound=LlmEngine)


class Copied:
    """Pages of another worker that have to be pulled."""

    in_place = False
    lost = False

    def __init__(self, worker: str, source: PageSource, acquired: Acquired) -> None:
        self.worker = worker
        self.page_bytes = source.page_bytes
        self._source = source
        self._acquired = acquired
        self._held = True

    @property
    def pages(self) -> PageIds:
        return self._acquired.pages

    @property
    def generations(self) -> Generations:
        return self._acquired.generations

    def verify(self) -> None:
        raise AssertionError("only pages in place are read again and again")

    def pull(self, sink: PageSource, target: PageIds, *, first: int = 0, timeout: float = 1.0) -> PullReport:
        rows = torch.empty(len(target), self.page_bytes, dtype=torch.uint8)
        self._source.gather(self.pages[first : first + len(target)], rows)
        sink.scatter(target, rows)
        return PullReport(len(target), rows.numel(), 0.001, "collective")

    def release(self) -> None:
        if self._held:
            self._source.end(self._acquired.lease)
        self._held = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class Neighbours:
    """The pages of other roles of this process, as if they were other workers'."""

    def __init__(self, **roles: LlmEngine) -> None:
        self._sources = {name: role.page_source for name, role in roles.items()}
        self.asked: list[str] = []
        self.gone = False
        self.goes_on = threading.Event()
        self.goes_on.set()

    def share(self, pool: PagePool) -> None:
        raise AssertionError("nothing lies in place here")

    def workers(self, model: str, layout: str) -> list[str]:
        return [name for name, each in self._sources.items() if (each.model, each.layout) == (model, layout)]

    def acquire(self, worker: str, model: str, layout: str, keys: PageKeys, *, ttl: float = 10.0) -> Copied | None:
        self.asked.append(worker)
        assert self.goes_on.wait(PATIENCE_S)
        if self.gone:
            raise PeerLost(f"{worker} has gone")
        source = self._sources[worker]
        acquired = source.acquire(keys, 1, 10_000)
        return Copied(worker, source, acquired) if acquired is not None else None

    def best(self, model: str, layout: str, keys: PageKeys, *, ttl: float = 10.0, within: float = 1.0) -> Copied | None:
        found = [self.acquire(worker, model, layout, keys) for worker in self.workers(model, layout)]
        best = max((each for each in found if each is not None), key=lambda each: len(each.pages), default=None)
        for each in found:
            if each is not None and each is not best:
                each.release()
        return best

    def reading(self, pool_owner: int) -> list[tuple[PageIds, int]]:
        return []

    def account(self, into: MemoryAccount) -> None:
        """Nothing to say."""


class Cluster:
    """Roles of one tiny model, each with a thread that serves it."""

    def __init__(self, model: Path, cache: Path, stack: ExitStack) -> None:
        self._model = model
        self._cache = cache
        self._stack = stack

    def load(self, role: type[R], worker: str, *, cluster: str = "", **options: object) -> R:
        """`cluster`: with whose other roles it shares a pool."""
        made = role()
        given = {"model": str(self._model), "kv_bytes": 1 << 20, "page_tokens": 8, "threads": 1, **options}
        made.load(RoleContext(worker=worker, options=given, cache=self._cache, cluster=cluster))
        self._stack.callback(made.unload)
        return made

    def serve(self, role: LlmEngine) -> MemoryQueue:
        return self._stack.enter_context(served(role))


@contextmanager
def served(role: LlmEngine) -> Iterator[MemoryQueue]:
    queue = MemoryQueue(type(role))
    thread = threading.Thread(target=role.serve, args=(queue.typed,))
    thread.start()
    try:
        yield queue
    finally:
        queue.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.fixture
def cluster(models: Callable[[str], Path], cache: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(models("llama"), cache, stack)


def done(activation: MemoryActivation) -> MemoryActivation:
    assert activation.wait(PATIENCE_S)
    assert activation.error is None
    return activation


def words(activation: MemoryActivation) -> str:
    return "".join(done(activation).results())


def prefilled(activation: MemoryActivation) -> Prefilled:
    (found,) = done(activation).results()
    assert isinstance(found, Prefilled)
    return found


def leases(role: LlmEngine) -> int:
    account = MemoryAccount()
    role.account(account)
    return int(account.pools[0].leases)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_prefill_and_decode_apart_give_the_words_of_one_worker(cluster: Cluster, sampling: dict[str, Any]) -> None:
    whole = words(cluster.serve(cluster.load(Llm, "one")).put("chat", question=QUESTION, max_tokens=20, **sampling))
    prefill, decode = cluster.load(LlmPrefill, "p"), cluster.load(LlmDecode, "d", reuse="always")
    neighbours = Neighbours(p=prefill, other=cluster.load(Llm, "other"))
    decode.meet(neighbours)
    prompt = cluster.serve(prefill).put("chat", question=QUESTION)
    found = prefilled(prompt)
    assert found.pages == (len(found.ids) - 1) // 8
    assert prompt.features["computed_tokens"] == prompt.features["prompt_tokens"] == 8 * found.pages
    assert len(prefill.page_source.hand_overs) == 1
    answer = cluster.serve(decode).put("chat", prompt=found, max_tokens=20, **sampling)
    assert words(answer) == whole
    assert answer.features["pulled_tokens"] == 8 * found.pages
    assert answer.features["computed_tokens"] == len(found.ids) - 8 * found.pages
    assert len(prefill.page_source.hand_overs) == 0
    assert leases(prefill) == 0


def test_a_prompt_is_handed_over_between_roles_of_one_worker(cluster: Cluster) -> None:
    pool = f"one-worker-{os.getpid()}"
    decode = cluster.load(LlmDecode, "both", cluster=pool, reuse="always")
    prefill = cluster.load(LlmPrefill, "both", cluster=pool)
    plane = Plane()
    plane.lend("both", decode.page_source, prefill.page_source)
    try:
        peers = plane.borrow("both")
        for role in (decode, prefill):
            role.meet(peers)
        with served(prefill) as prompts, served(decode) as answers:
            found = prefilled(prompts.put("chat", question=QUESTION))
            answer = answers.put("chat", prompt=found, max_tokens=4)
            words(answer)
    finally:
        plane.close()
    assert answer.features["mapped_tokens"] == 8 * found.pages
    assert len(prefill.page_source.hand_overs) == 0


def test_a_prompt_whose_worker_is_gone_is_computed_where_it_is_answered(cluster: Cluster) -> None:
    prefill, decode = cluster.load(LlmPrefill, "p"), cluster.load(LlmDecode, "d")
    neighbours = Neighbours(p=prefill)
    decode.meet(neighbours)
    found = prefilled(cluster.serve(prefill).put("chat", question=QUESTION))
    answers = cluster.serve(decode)
    neighbours.gone = True
    alone = answers.put("chat", prompt=found, max_tokens=20)
    whole = words(cluster.serve(cluster.load(Llm, "one")).put("chat", question=QUESTION, max_tokens=20))
    assert words(alone) == whole
    assert neighbours.asked == ["p"]
    assert (alone.features["pulled_tokens"], alone.features["computed_tokens"]) == (0, len(found.ids))


def test_an_answer_that_is_cancelled_while_its_pages_are_looked_for_ends_at_once(cluster: Cluster) -> None:
    prefill, decode = cluster.load(LlmPrefill, "p"), cluster.load(LlmDecode, "d")
    neighbours = Neighbours(p=prefill)
    decode.meet(neighbours)
    found = prefilled(cluster.serve(prefill).put("chat", question=QUESTION))
    neighbours.goes_on.clear()
    answer = cluster.serve(decode).put("chat", prompt=found, max_tokens=20)
    answer.cancel()
    assert answer.wait(PATIENCE_S / 2)
    assert isinstance(answer.error, Cancelled)
    neighbours.goes_on.set()


def test_rule_12_an_answer_from_handed_over_pages_goes_on_where_a_lost_worker_stopped(cluster: Cluster) -> None:
    prefill, decode = cluster.load(LlmPrefill, "p"), cluster.load(LlmDecode, "d")
    decode.meet(Neighbours(p=prefill))
    found, answers = prefilled(cluster.serve(prefill).put("chat", question=QUESTION)), cluster.serve(decode)
    first = done(answers.put("chat", prompt=found, max_tokens=20))
    second = done(answers.put("chat", prompt=found, max_tokens=20, after=first, delivered=2))
    assert second.results() == first.results()[2:]


def test_pages_that_nobody_takes_over_are_let_go_when_their_time_is_up(cluster: Cluster) -> None:
    prefill = cluster.load(LlmPrefill, "p", hand_over_s=0.05)
    done(cluster.serve(prefill).put("chat", question=QUESTION))
    nothing_waits(prefill)


def test_pages_are_let_go_when_their_job_is_over(cluster: Cluster) -> None:
    prefill = cluster.load(LlmPrefill, "p")
    prompt = done(cluster.serve(prefill).put("chat", question=QUESTION))
    assert len(prefill.page_source.hand_overs) == 1
    prompt.cancel()
    nothing_waits(prefill)


def nothing_waits(prefill: LlmPrefill) -> None:
    """Within a while: nobody tells."""
    until = time.monotonic() + PATIENCE_S
    while len(prefill.page_source.hand_overs):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_prompt_of_less_than_a_page_hands_over_nothing_and_is_answered(cluster: Cluster) -> None:
    prefill, decode = cluster.load(LlmPrefill, "p", page_tokens=128), cluster.load(LlmDecode, "d")
    neighbours = Neighbours(p=prefill)
    decode.meet(neighbours)
    found = prefilled(cluster.serve(prefill).put("chat", question="?"))
    assert found.pages == 0
    words(cluster.serve(decode).put("chat", prompt=found, max_tokens=4))
    assert neighbours.asked == []


def test_a_prompt_for_other_weights_is_refused_by_name(cluster: Cluster) -> None:
    decode = cluster.load(LlmDecode, "d")
    found = Prefilled(prefilled_ids(5), "0" * 64, "layout", 8, 0)
    answer = cluster.serve(decode).put("chat", prompt=found)
    assert answer.wait(PATIENCE_S)
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.field == "prompt"
    assert "`model`" in answer.error.cure


def prefilled_ids(count: int) -> Any:
    from omniflow.types import Tensor

    return Tensor.from_array(np.arange(count, dtype=np.uint32))


CONTEXT = "The night train to Basel leaves at nine from platform four, and the day train at noon. "


def test_a_prompt_that_another_worker_has_computed_is_pulled_and_not_computed(cluster: Cluster) -> None:
    first, second = cluster.load(Llm, "first"), cluster.load(Llm, "second", reuse="always")
    second.meet(Neighbours(first=first))
    asked: dict[str, Any] = {"context": CONTEXT, "max_tokens": 12}
    there, here = cluster.serve(first), cluster.serve(second)
    words(there.put("chat", question="when?", **asked))
    pulled, alone = here.put("chat", question="where?", **asked), there.put("chat", question="where?", **asked)
    assert words(pulled) == words(alone)
    features = pulled.features
    assert features["pulled_tokens"] >= len(CONTEXT) // 8 * 8
    assert features["prompt_tokens"] == features["pulled_tokens"] + features["computed_tokens"]
    again = here.put("chat", question="where to?", **asked)
    words(again)
    assert again.features["reused_tokens"] >= len(CONTEXT) // 8 * 8, "what was pulled is this worker's own now"
    assert again.features["pulled_tokens"] == 0
    assert leases(first) == 0


def test_a_worker_that_shall_not_reuse_asks_nobody(cluster: Cluster) -> None:
    first, second = cluster.load(Llm, "first"), cluster.load(Llm, "second", reuse="never")
    neighbours = Neighbours(first=first)
    second.meet(neighbours)
    words(cluster.serve(first).put("chat", question=CONTEXT, max_tokens=2))
    answer = cluster.serve(second).put("chat", question=CONTEXT, max_tokens=2)
    words(answer)
    assert neighbours.asked == []
    assert answer.features["computed_tokens"] == answer.features["prompt_tokens"]


def test_another_tenants_pages_are_not_found(cluster: Cluster) -> None:
    first, second = cluster.load(Llm, "first"), cluster.load(Llm, "second", reuse="always")
    second.meet(Neighbours(first=first))
    words(cluster.serve(first).put("chat", question=CONTEXT, max_tokens=2))
    queue = MemoryQueue(Llm)
    answer = queue.put("chat", question=CONTEXT, max_tokens=2)
    answer.tenant = "another"
    queue.close()
    second.serve(queue.typed)
    words(answer)
    assert answer.features["pulled_tokens"] == 0
