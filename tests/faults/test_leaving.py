"""A worker that is asked to leave finishes what it runs, takes nothing new, and stays away."""

import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from omniflow.client import Client, Job
from omniflow.errors import InvalidArgument
from omniflow.launch import ProcessState
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.stage import Act, Stage
from tests.cluster_fixtures.submit import next_job_runs

WORKERS: list[dict[str, Any]] = [
    {"name": "two", "count": 3, "roles": ["second"]},
    {"name": "rest", "roles": ["first", "third", "loner"]},
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    with running(write_cluster(tmp_path_factory.mktemp("leaving"), WORKERS)) as started:
        yield started


@pytest.fixture
async def visitor(cluster: PuppetCluster) -> AsyncIterator[Client]:
    async with Client(cluster.address) as connected:
        yield connected


async def held_job(client: Client, stage: Stage) -> tuple[Job, Act]:
    job = await client.submit("held_by_one_of_two", {"text": "x"})
    return job, await stage.act()


async def assert_it_takes_nothing_new(leaving: str, client: Client, stage: Stage) -> None:
    """A worker with nothing to do would be chosen before those that have something."""
    others = [await held_job(client, stage) for _ in range(4)]
    assert leaving not in {act.worker for _, act in others}
    for job, act in others:
        act.go_on()
        await job.result()


async def test_a_drained_worker_finishes_takes_nothing_new_and_stays_away(
    cluster: PuppetCluster, visitor: Client, stage: Stage
) -> None:
    job, act = await held_job(visitor, stage)
    assert await visitor.drain(act.worker) == 1
    await assert_it_takes_nothing_new(act.worker, visitor, stage)
    assert cluster.process(act.worker).alive
    act.go_on()
    assert await job.result() == {"result": "x"}
    await cluster.until(lambda: cluster.status_of(act.worker).state is ProcessState.LEFT, f"{act.worker} has left")
    assert cluster.status_of(act.worker).last_exit == "ended with exit code 0"
    await cluster.until_status(
        visitor,
        lambda status: act.worker not in {worker.info.name for worker in status.workers},
        f"{act.worker} is known no longer",
    )
    await next_job_runs(visitor)


async def test_a_worker_that_gets_sigterm_does_the_same(cluster: PuppetCluster, visitor: Client, stage: Stage) -> None:
    job, act = await held_job(visitor, stage)
    cluster.send(act.worker, signal.SIGTERM)
    await cluster.until_status(
        visitor,
        lambda status: any(
            worker.info.name == act.worker and worker.state == worker.DRAINING for worker in status.workers
        ),
        f"{act.worker} drains",
    )
    await assert_it_takes_nothing_new(act.worker, visitor, stage)
    act.go_on()
    assert await job.result() == {"result": "x"}
    await cluster.until(lambda: cluster.status_of(act.worker).state is ProcessState.LEFT, f"{act.worker} has left")
    await next_job_runs(visitor)


async def test_an_unknown_worker_cannot_be_drained(visitor: Client) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await visitor.drain("tow-0")
    assert caught.value.field == "worker"
    assert "rest" in caught.value.cure
