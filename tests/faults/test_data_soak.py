"""Jobs whose tensors cross by handle and whose prompts are other workers' pages, while these are killed at random: each
has its right result, and afterwards everything is as before."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from omniflow.client import Client, Job
from omniflow.errors import Cancelled
from omniflow.flow import flow, use
from omniflow.launch import Kind
from omniflow.types import Stream, Text
from omniflow.v1.cluster_pb2 import WorkerStatus
from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_workers.engines.torch.converting import here
from omniflow_workers.roles.llm import Llm
from omniflow_workers.weights.cache import cache_of
from omniflow_workers.weights.convert import prepare
from omniflow_workers.weights.source import locate
from tests.cluster_fixtures.at_rest import Footprint, Spare, files_below, still_held
from tests.cluster_fixtures.cluster import LIMITS, LOOK_EVERY_S, PATIENCE_S, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.heavy import Heavy
from tests.cluster_fixtures.tiny_model import save_model

LLM = "omniflow_workers.roles.llm:Llm"
AT_ONCE = 6
# More than a model keeps, so that pages are evicted, and computed, mapped and pulled again.
DOCUMENTS = 40
QUESTIONS = 8
# A prompt takes 9 pages of 6 KiB.
KV_BYTES = 100 * 6 * 1024
CANCELLED = 0.15
# So long the scheduler keeps what it knows of a job that has ended, which is no leak.
RESULT_TTL_S = 1.0
# An engine has up to four threads that fetch pages, each begun when it is first needed; a connection between survivors
# may come after the base line, where a busy machine took one for lost; and glibc keeps here and there what was freed.
SPARE = Spare(threads=4, descriptors=16, mappings=1, resident=12 << 20)

maker = use(Heavy, "maker")
reader = use(Heavy, "reader")
mapping = use(Llm, "mapping")
pulling = use(Llm, "pulling")


@flow
def shared(text: Text, document: Text, question: Text) -> tuple[Text, Text, Stream[Text], Stream[Text]]:
    """A tensor with two readers, and a prompt that two models answer."""
    tensor = maker.fill(text)
    one = mapping.chat(question, context=document, min_tokens=4, max_tokens=6)
    other = pulling.chat(question, context=document, min_tokens=4, max_tokens=6)
    return reader.look_at(tensor), reader.look_at(tensor), one, other


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    """`param`: how many workers pull. Those whose names end in `-0` may be killed; the others are to live."""
    folder = tmp_path_factory.mktemp("soak")
    model, cache = folder / "model", folder / "cache"
    model.mkdir()
    save_model("llama", model)
    source = locate(str(model))
    prepare(source, cache_of(cache), here(source))  # else each worker would wait for a process that does
    options = {"model": str(model), "threads": 1, "kv_bytes": KV_BYTES, "running": AT_ONCE, "reuse": "always"}
    workers: list[dict[str, Any]] = [
        {"name": "maker", "roles": ["maker"], "count": 2},
        {"name": "reader", "roles": ["reader"], "count": 2},
        {"name": "mapping", "roles": [{"class": LLM, "name": "mapping", "options": options}], "count": 2},
        {"name": "pulling", "roles": [{"class": LLM, "name": "pulling", "options": options}], "count": request.param},
    ]
    workers[-1]["transfer"] = "collective"
    # One job may be hit by kill after kill, and model after model be loaded anew in its time.
    limits = {**LIMITS, "max_attempts": 100, "max_deadline_s": 120.0, "result_ttl_s": RESULT_TTL_S}
    written = write_cluster(folder / "cluster", workers, limits, cache=str(cache), start_timeout_s=300)
    with running(written) as started:
        yield started


def document(number: int) -> str:
    """Unlike any other from its first word on."""
    return f"{number:03} " + " ".join(str(number * factor % 89) for factor in range(3, 40))[:104]


@dataclass
class Soak:
    """Jobs, and workers that are killed meanwhile."""

    client: Client
    cluster: PuppetCluster
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    answers: dict[str, str] = field(default_factory=dict)
    _begun: int = 0
    _ended: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.workers = [each.name for each in self.cluster.state.processes if each.kind is Kind.WORKER]
        self.mortal = [name for name in self.workers if name.endswith("-0")]
        self.survivors = ["scheduler", *(name for name in self.workers if name not in self.mortal)]

    async def run(self, jobs: int, jobs_a_kill: int) -> None:
        """Until so many more jobs have ended, each in its right result; in the mean, so many of them see one kill."""
        enough = self._begun + jobs
        async with asyncio.TaskGroup() as group:
            works = [group.create_task(self._work(enough)) for _ in range(AT_ONCE)]
            killing = group.create_task(self._kill(jobs_a_kill))
            await asyncio.wait(works)
            killing.cancel()
        await self.cluster.until_settled(self.client)

    async def _work(self, enough: int) -> None:
        while self._begun < enough:
            self._begun += 1
            await self._one(self._begun)
            async with self._ended:
                self._ended.notify_all()

    async def _one(self, number: int) -> None:
        asked = {
            "text": f"{number}:1",
            "document": document(self.chance.randrange(DOCUMENTS)),
            "question": f"{self.chance.randrange(QUESTIONS)}?",
        }
        fate = self.chance.random()
        job = await self.client.submit(shared, asked)
        if fate < CANCELLED:
            await self._cancel(job, at_once=fate < CANCELLED / 2)
            return
        one, other, *said = (await job.result()).values()
        assert (one, other) == (asked["text"], asked["text"])
        prompt = asked["document"] + asked["question"]
        for answer in map("".join, said):
            assert self.answers.setdefault(prompt, answer) == answer, asked
        self.done["right"] += 1

    async def _cancel(self, job: Job, at_once: bool) -> None:
        """Or it was done before anybody heard of that."""
        if not at_once:
            async for _ in job:
                break
        await job.cancel()
        with suppress(Cancelled):
            await job.result()
        self.done["cancelled"] += 1

    async def _kill(self, jobs_a_kill: int) -> None:
        while True:
            await self._until_ended(self.chance.randrange(2 * jobs_a_kill))
            victim = self.chance.choice(await self._ready() or self.mortal)
            await self.cluster.until_replaced(self.cluster.kill(victim), victim)
            self.done["killed"] += 1

    async def _until_ended(self, jobs: int) -> None:
        """So many more."""
        until = self._jobs_ended() + jobs
        async with self._ended:
            await self._ended.wait_for(lambda: self._jobs_ended() >= until)

    async def _ready(self) -> list[str]:
        """Those that may be killed, and have something to lose."""
        status = await self.client.cluster_status()
        ready = {each.info.name for each in status.workers if each.state == WorkerStatus.READY}
        return [name for name in self.mortal if name in ready]

    def _jobs_ended(self) -> int:
        return self.done["right"] + self.done["cancelled"]

    async def accounts(self) -> dict[str, MemoryAccount]:
        return {each.worker: each.account for each in await self.client.memory() if not each.silent}

    async def at_rest(self) -> dict[str, Footprint]:
        """Of the survivors, once nothing is held any more and all that they have met are dead."""
        for name, killed in [(name, self.cluster.kill(name)) for name in self.mortal]:
            await self.cluster.until_replaced(killed, name)
        await self.cluster.until_settled(self.client)
        await self._until_nothing_is_held()
        return {name: Footprint.of(self.cluster.process(name).pid) for name in self.survivors}

    async def _until_nothing_is_held(self) -> None:
        accounts: dict[str, MemoryAccount] = {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(accounts) < len(self.workers) or still_held(accounts):
                    await asyncio.sleep(LOOK_EVERY_S)  # nobody tells of it
                    accounts = await self.accounts()
        except TimeoutError:
            raise AssertionError(f"after {self.done}, of {list(accounts)}: {still_held(accounts)}") from None


async def soak(client: Client, cluster: PuppetCluster, warm: int, jobs: int, jobs_a_kill: int) -> None:
    """The base line is taken after `warm` jobs: by then every survivor has done all that it ever does."""
    seed = int(os.environ.get("SOAK_SEED", random.randrange(2**32)))
    print(f"SOAK_SEED={seed}")
    names = set(os.listdir("/dev/shm"))
    running = Soak(client, cluster, random.Random(seed))
    await running.run(warm, jobs_a_kill)
    before, files = await running.at_rest(), files_below(cluster.run)
    await running.run(jobs, jobs_a_kill)
    now = await running.at_rest()
    print(running.done, *(f"{name}: {before[name]}, now {now[name]}" for name in now), sep="\n")
    assert [name for name in now if not now[name].within(before[name], SPARE)] == []
    assert files_below(cluster.run) == files
    await cluster.until(lambda: set(os.listdir("/dev/shm")) <= names, "no name is left in /dev/shm")
    accounts = await running.accounts()
    assert_all_was_shared(accounts)
    expired = {worker: account.leases.expired for worker, account in accounts.items()}
    assert not any(expired.values()), f"leases that nobody ended: {expired}"


def assert_all_was_shared(accounts: dict[str, MemoryAccount]) -> None:
    """Else the soak shows nothing."""
    counts: dict[str, Callable[[MemoryAccount], int]] = {
        "tensors": lambda account: account.blobs.sent_in_place,
        "pages in place": lambda account: account.borrowed.acquired - account.pulls.finished,
        "pages pulled": lambda account: account.pulls.received_pages,
    }
    assert [what for what, count in counts.items() if not any(map(count, accounts.values()))] == []


@pytest.mark.parametrize("cluster", [1], indirect=True)
async def test_killing_workers_for_a_while_leaves_nothing_of_what_jobs_shared(
    client: Client, cluster: PuppetCluster
) -> None:
    await soak(client, cluster, warm=30, jobs=50, jobs_a_kill=8)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cluster", [2], indirect=True)
async def test_ten_thousand_jobs_with_random_kills_leave_nothing_of_what_they_shared(
    client: Client, cluster: PuppetCluster
) -> None:
    jobs = int(os.environ.get("SOAK_JOBS", "10000"))
    await soak(client, cluster, warm=1_000, jobs=jobs, jobs_a_kill=40)
