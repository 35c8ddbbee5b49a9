"""Binds that move to a worker that joins (rule 15), under faults: whoever dies, the job has its right result."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniflow.client import Client, Job
from tests.cluster_fixtures.cluster import PuppetCluster, running
from tests.cluster_fixtures.joining import (
    AT_ONCE,
    DEADLINE_S,
    another_worker,
    held_words,
    let_go,
    words,
    write_early_cluster,
)
from tests.cluster_fixtures.stage import Act, Stage
from tests.cluster_fixtures.submit import next_job_runs

WORDS = 12
TEXT = words(WORDS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PuppetCluster]:
    with running(write_early_cluster(tmp_path / "moving", client_grace_s=20.0)) as started:
        yield started


async def first_at(stage: Stage, worker: str) -> Act:
    """The first activation that has moved there. A process starts meanwhile, longer than the stage is patient."""
    async with asyncio.timeout(DEADLINE_S):
        while stage.quiet:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    act = await stage.act()
    assert act.worker == worker
    return act


async def assert_it_ends_well(job: Job, stage: Stage, held: list[Act]) -> None:
    """Once whoever is held goes on, and whoever comes."""
    for act in held:
        act.go_on()
    rest = asyncio.create_task(let_go(stage))
    try:
        assert await job.result() == {"result": TEXT}
    finally:
        rest.cancel()
        await asyncio.wait({rest})


async def test_rule_15_a_worker_that_dies_with_binds_that_moved_to_it_costs_them_an_attempt(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(held_words, {"text": TEXT}, deadline=DEADLINE_S)
    held = await stage.acts(AT_ONCE)
    async with another_worker(cluster, "early", "late") as late:
        moved = await first_at(stage, "late")
        late.kill()
        assert await moved.says() == ""
        await assert_it_ends_well(job, stage, held)
    await next_job_runs(client)


async def test_rule_15_a_worker_that_gave_binds_away_may_die(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(held_words, {"text": TEXT}, deadline=DEADLINE_S)
    await stage.acts(AT_ONCE)
    async with another_worker(cluster, "early", "late"):
        moved = await first_at(stage, "late")
        cluster.kill("early")
        await assert_it_ends_well(job, stage, [moved])


async def test_rule_14_a_scheduler_that_dies_while_binds_have_moved_finds_them_where_they_are(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(held_words, {"text": TEXT}, deadline=DEADLINE_S)
    held = await stage.acts(AT_ONCE)
    async with another_worker(cluster, "early", "late"):
        moved = await first_at(stage, "late")
        killed = cluster.kill("scheduler")
        await cluster.until_replaced(killed, "scheduler")
        await assert_it_ends_well(job, stage, [*held, moved])
