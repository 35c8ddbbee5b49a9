"""Rule 17: what a scheduler has accepted survives its death, at whatever step of a job it dies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.errors import NotReplayable
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.ports import free_port
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs

WORKERS: list[dict[str, Any]] = [
    {"name": "one", "roles": ["first"]},
    {"name": "two", "roles": ["second"]},
    {"name": "three", "roles": ["third"]},
]
SENTENCE = "one two three four five"
POINTS = ("submitted", "bound", "written", "accepted", "result", "ended", "told")
"""Before anything is known of the job; decided where it runs; on disk, and nobody told; the client about to be told;
its first result is there; it has ended, and nobody knows; the client about to be told that."""


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a point's name in here kills the scheduler there, once."""
    return tmp_path_factory.mktemp("points")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, points: Path) -> Iterator[PuppetCluster]:
    scheduler = {
        "listen": f"127.0.0.1:{free_port('127.0.0.1')}",
        "limits": {**LIMITS, "result_ttl_s": 30.0},
        "drain_timeout_s": 5,
        "env": {"OMNIFLOW_STOP_AT": str(points)},
    }
    with running(write_cluster(tmp_path_factory.mktemp("journal"), WORKERS, scheduler=scheduler)) as cluster:
        yield cluster


async def words(client: Client) -> list[str]:
    """Of a whole job, as its client sees them: each once, in order, through any break."""
    job = await client.submit("streamed_out", {"text": SENTENCE})
    return [frame.value async for frame in job]


@pytest.mark.parametrize("point", POINTS)
async def test_rule_17_a_job_has_its_right_result_though_the_scheduler_dies_at_this_point(
    client: Client, cluster: PuppetCluster, points: Path, point: str
) -> None:
    process = cluster.process("scheduler")
    (points / point).touch()
    async with asyncio.timeout(25):
        assert await words(client) == SENTENCE.split()
    assert not (points / point).exists(), "nothing died"
    await cluster.until_replaced(process, "scheduler")
    await cluster.until_settled(client)
    await next_job_runs(client)


async def test_rule_14_a_job_that_runs_goes_on_where_it_is(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("held", {"text": "x"})
    act = await stage.act()
    workers = {name: cluster.process(name) for name in ("one", "two", "three")}
    killed = cluster.kill("scheduler")
    await cluster.until_replaced(killed, "scheduler")
    act.go_on()
    assert await job.result() == {"result": "x"}
    assert stage.quiet, "nothing ran twice"
    assert {name: cluster.process(name) for name in workers} == workers
    await cluster.until_settled(client)


async def test_rule_14_a_stream_goes_on_where_its_client_was(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    """`spoken` stops after three words, and goes on in the scheduler's next life."""
    job = await client.submit("spoken", {"text": SENTENCE})
    frames = aiter(job)
    act = await stage.act()
    first = [(await anext(frames)).value for _ in range(3)]
    killed = cluster.kill("scheduler")
    await cluster.until_replaced(killed, "scheduler")
    act.go_on()
    assert first + [frame.value async for frame in frames] == SENTENCE.split()
    assert stage.quiet, "nothing ran twice"
    await cluster.until_settled(client)


async def test_rule_12_what_a_client_has_is_never_contradicted_after_a_restart(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    """`guessed` says something else in each attempt; its worker dies together with the scheduler."""
    job = await client.submit("guessed", {"text": SENTENCE})
    frames = aiter(job)
    await stage.act()
    shown = [(await anext(frames)).value for _ in range(2)]
    cluster.kill("scheduler")
    cluster.kill("three")
    with pytest.raises(NotReplayable):
        shown += [frame.value async for frame in frames]
    assert shown == ["one-1", "two-1"]
    await cluster.until_settled(client)


async def test_rule_17_a_key_seen_before_is_the_same_job_in_the_next_life(
    client: Client, cluster: PuppetCluster
) -> None:
    job = await client.submit("streamed_out", {"text": SENTENCE}, idempotency_key="once")
    await job.result()
    killed = cluster.kill("scheduler")
    await cluster.until_replaced(killed, "scheduler")
    again = await client.submit("streamed_out", {"text": SENTENCE}, idempotency_key="once")
    assert (again.id, again.existed) == (job.id, True)
    assert (await again.result()) == {"result": SENTENCE.split()}
    await cluster.until_settled(client)


async def test_rule_17_many_jobs_under_way_all_have_their_results_though_the_scheduler_dies_twice(
    client: Client, cluster: PuppetCluster
) -> None:
    async def run(number: int) -> None:
        job = await client.submit("chain", {"text": f"job {number}"})
        assert await job.result() == {"result": f"job {number}"}

    async with asyncio.timeout(28), asyncio.TaskGroup() as group:
        for wave in range(2):
            for number in range(8):
                group.create_task(run(10 * wave + number))
            await asyncio.sleep(0)
            killed = cluster.kill("scheduler")
            await cluster.until_replaced(killed, "scheduler")
    await cluster.until_settled(client)
