"""A fan-out or a join whose worker dies: the job has its right result all the same, in order, and the next job runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from omniflow.client import Client
from omniflow.flow import collect, each, flow, use
from omniflow.types import Text
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs

TEXT = "one two three four five six"
DEADLINE_S = 25.0

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")


@flow
def fanned_out(text: Text) -> Text:
    """Each word is held by one of two workers."""
    return third.join(collect(second.hold(word) for word in each(first.words(text))))


@flow
def joined_late(text: Text) -> Text:
    """The words stop after three of them, at the first attempt."""
    return third.join(collect(second.echo(word) for word in each(first.words(text, pause=3))))


@pytest.fixture(autouse=True)
async def next_one_runs(client: Client, shared: PuppetCluster) -> AsyncIterator[None]:
    yield
    await shared.until_settled(client)
    await next_job_runs(client)


@asynccontextmanager
async def nobody_is_held(stage: Stage) -> AsyncIterator[None]:
    """Whoever reports from now on may go on at once: how much is run again is not the test's matter."""

    async def let_go() -> None:
        while True:
            (await stage.act()).go_on()

    task = asyncio.create_task(let_go())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_slow_keys_that_come_together_run_together_also_after_quick_ones(client: Client, stage: Stage) -> None:
    for _ in range(40):
        await next_job_runs(client)
    job = await client.submit(fanned_out, {"text": TEXT}, deadline=DEADLINE_S)
    for act in await stage.acts(len(TEXT.split())):
        act.go_on()
    assert await job.result() == {"result": TEXT}


async def test_the_keys_of_a_killed_worker_run_again_and_the_join_is_in_order(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(fanned_out, {"text": TEXT}, deadline=DEADLINE_S)
    acts = await stage.acts(len(TEXT.split()))
    assert {act.worker for act in acts} == {"two-0", "two-1"}
    shared.kill("two-0")
    for act in acts:
        if act.worker == "two-0":
            assert await act.says() == ""
    async with nobody_is_held(stage):
        for act in acts:
            if act.worker != "two-0":
                act.go_on()
        assert await job.result() == {"result": TEXT}


async def test_a_join_whose_producer_dies_has_every_key_once(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(joined_late, {"text": TEXT}, deadline=DEADLINE_S)
    act = await stage.act()
    shared.kill("one")
    assert await act.says() == ""
    async with nobody_is_held(stage):
        assert await job.result() == {"result": TEXT}


async def test_a_join_that_dies_is_joined_again(client: Client, shared: PuppetCluster, stage: Stage) -> None:
    job = await client.submit(fanned_out, {"text": TEXT}, deadline=DEADLINE_S)
    acts = await stage.acts(len(TEXT.split()))
    shared.kill("three")
    async with nobody_is_held(stage):
        for act in acts:
            act.go_on()
        assert await job.result() == {"result": TEXT}
