"""Everything dies, again and again, and every job has its right result."""

import asyncio
import os
import random
from collections import Counter

import pytest

from omniflow.client import Client
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.submit import next_job_runs

AT_ONCE = 12
VICTIMS = ("one", "two-0", "two-1", "three", "etcd")


async def work(client: Client, over: asyncio.Event, number: int, done: Counter[str]) -> None:
    """Jobs of two flows, one after the other, each with a text of its own."""
    while not over.is_set():
        text = " ".join(f"{number}.{done[str(number)]}.{word}" for word in range(50))
        for flow in ("chain", "streamed"):
            job = await client.submit(flow, {"text": text})
            assert await job.result() == {"result": text}
        done[str(number)] += 1


async def kill(client: Client, shared: PuppetCluster, kills: int, over: asyncio.Event) -> None:
    """A victim at a time, the next one once a job has come through. The seed is told, to repeat a failure."""
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(2**32)))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(kills):
        name = chance.choice(VICTIMS)
        await shared.until_replaced(shared.kill(name), name)
        await next_job_runs(client)
    over.set()


async def rampage(client: Client, shared: PuppetCluster, kills: int) -> None:
    over, done = asyncio.Event(), Counter[str]()
    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(work(client, over, number, done))
        group.create_task(kill(client, shared, kills, over))
    await shared.until_settled(client)
    await next_job_runs(client)
    status = await client.cluster_status()
    assert sum(worker.outstanding for worker in status.workers) == 0


async def test_killing_anything_for_a_while_costs_no_job(client: Client, shared: PuppetCluster) -> None:
    await rampage(client, shared, kills=8)


async def test_killing_the_scheduler_under_load_costs_no_job_and_hangs_nobody(
    client: Client, shared: PuppetCluster
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
            await shared.until_replaced(shared.kill("scheduler"), "scheduler")
            await shared.until_ready(client)
            await next_job_runs(client)
        over.set()
    await shared.until_settled(client)
    assert results.total() > AT_ONCE
    await next_job_runs(client)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_killing_anything_for_minutes_costs_no_job(client: Client, shared: PuppetCluster) -> None:
    await rampage(client, shared, kills=400)
