"""Everything dies, again and again, and every job has its right result."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from omniflow.client import Client
from omniflow.flow import collect, each, flow, loop, use
from omniflow.types import Text
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.puppets import Puppet, Turn
from tests.cluster_fixtures.submit import next_job_runs
from tests.faults.conftest import WORKERS as SHARED_WORKERS

AT_ONCE = 12
WORKERS = ("one", "two-0", "two-1", "three")
VICTIMS = (*WORKERS, "etcd")
ROUNDS = 3
# etcd stops for longer than the leases last that it keeps.
ETCD_STOPS_S = 12.0

# One job may be hit by kill after kill: three attempts, the default, are for nodes that kill their workers, and on a
# machine that has much else to do a worker is back only seconds later.
PATIENT = {**LIMITS, "max_attempts": 100, "max_deadline_s": 100.0}

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")


@flow
def looped_fan(text: Text) -> Text:
    """Each round fans out and joins."""

    def part(text: Text) -> Turn:
        return third.turn(collect(second.echo(word) for word in each(first.words(text))))

    return loop(part, start=text, until="done", max_rounds=8)


@flow
def fanned_loop(text: Text) -> Text:
    """Each word goes through a loop of its own."""

    def part(text: Text) -> Turn:
        return second.step(third.echo(text))

    return third.join(collect(loop(part, start=word, until="done", max_rounds=8) for word in each(first.words(text))))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    with running(write_cluster(tmp_path_factory.mktemp("chaos"), SHARED_WORKERS, PATIENT)) as started:
        yield started


# A flow's name, its text for a job of such a name, and the result.
Work = tuple[str, Callable[[str], str], Callable[[str], str]]


def words(name: str, count: int, form: str) -> str:
    return " ".join(form.format(f"{name}.{word}") for word in range(count))


def same(name: str) -> str:
    return words(name, 50, "{}")


PLAIN: list[Work] = [("chain", same, same), ("streamed", same, same)]
DOTS = "." * ROUNDS
NESTED: list[Work] = [
    ("looped_fan", lambda name: f"{ROUNDS} {words(name, 4, '{}')}", lambda name: f"0 {words(name, 4, '{}' + DOTS)}"),
    ("fanned_loop", lambda name: words(name, 4, f"{ROUNDS}:{{}}"), lambda name: words(name, 4, f"0:{{}}{DOTS}")),
]


async def register(client: Client) -> None:
    for known in (looped_fan, fanned_loop):
        await client.register_flow(known)


async def work(client: Client, over: asyncio.Event, number: int, done: Counter[str], kinds: Sequence[Work]) -> None:
    """Jobs of several flows, one after the other, each with a text of its own."""
    while not over.is_set():
        name = f"{number}.{done[str(number)]}"
        for kind, text, result in kinds:
            job = await client.submit(kind, {"text": text(name)})
            assert await job.result() == {"result": result(name)}
        done[str(number)] += 1


async def kill(client: Client, cluster: PuppetCluster, victims: Sequence[str], kills: int, over: asyncio.Event) -> None:
    """A victim at a time, the next one once a job has come through. The seed is told, to repeat a failure."""
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(2**32)))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(kills):
        name = chance.choice(victims)
        await cluster.until_replaced(cluster.kill(name), name)
        await next_job_runs(client)
    over.set()


async def rampage(
    client: Client,
    cluster: PuppetCluster,
    kills: int,
    *,
    kinds: Sequence[Work] = PLAIN,
    victims: Sequence[str] = VICTIMS,
    at_once: int = AT_ONCE,
) -> None:
    over, done = asyncio.Event(), Counter[str]()
    await register(client)
    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(work(client, over, number, done, kinds))
        group.create_task(kill(client, cluster, victims, kills, over))
    await cluster.until_settled(client)
    await next_job_runs(client)
    status = await client.cluster_status()
    assert sum(worker.outstanding for worker in status.workers) == 0


async def test_killing_anything_for_a_while_costs_no_job(client: Client, cluster: PuppetCluster) -> None:
    await rampage(client, cluster, kills=8)


async def test_killing_workers_costs_no_job_whose_scopes_are_nested(client: Client, cluster: PuppetCluster) -> None:
    await rampage(client, cluster, kills=6, kinds=NESTED, victims=WORKERS, at_once=4)


async def stop_etcd(client: Client, cluster: PuppetCluster, seconds: float) -> None:
    """Under load, jobs of all kinds, and then until it is seen to be back."""
    over, done = asyncio.Event(), Counter[str]()
    await register(client)
    before = {name: cluster.process(name) for name in ("scheduler", *WORKERS)}
    stopped = cluster.send("etcd", signal.SIGSTOP)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(work(client, over, number, done, [*PLAIN, *NESTED]))
            await asyncio.sleep(seconds)  # the fault itself: for so long
            assert all(done[str(number)] > 0 for number in range(AT_ONCE)), done
            stopped.send(signal.SIGCONT)
            await cluster.until_status(client, lambda status: status.registry_reachable, "etcd is seen to be back")
            await next_job_runs(client)
            over.set()
    finally:
        stopped.send(signal.SIGCONT)
    await cluster.until_settled(client)
    assert {name: cluster.process(name) for name in before} == before, "nobody ended because of it"
    # Who is new is found by it again.
    cluster.kill("three")
    await next_job_runs(client)


async def test_etcd_that_stops_under_load_for_longer_than_its_leases_costs_no_job(
    client: Client, cluster: PuppetCluster
) -> None:
    await stop_etcd(client, cluster, ETCD_STOPS_S)


async def test_killing_the_scheduler_under_load_costs_no_job_and_hangs_nobody(
    client: Client, cluster: PuppetCluster
) -> None:
    over, results = asyncio.Event(), Counter[str]()

    async def work_on(number: int) -> None:
        while not over.is_set():
            text = f"{number}.{results.total()}"
            job = await client.submit("chain", {"text": text})
            assert await job.result() == {"result": text}
            results[text] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(work_on(number))
        for _ in range(3):
            await cluster.until_replaced(cluster.kill("scheduler"), "scheduler")
            await cluster.until_ready(client)
            await next_job_runs(client)
        over.set()
    await cluster.until_settled(client)
    assert results.total() > AT_ONCE
    await next_job_runs(client)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_killing_anything_for_minutes_costs_no_job(client: Client, cluster: PuppetCluster) -> None:
    await rampage(client, cluster, kills=400)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_killing_workers_for_minutes_costs_no_job_whose_scopes_are_nested(
    client: Client, cluster: PuppetCluster
) -> None:
    await rampage(client, cluster, kills=200, kinds=NESTED, victims=WORKERS, at_once=4)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_etcd_that_stops_under_load_for_two_minutes_costs_no_job(client: Client, cluster: PuppetCluster) -> None:
    await stop_etcd(client, cluster, 120.0)
