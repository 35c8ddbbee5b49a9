"""A worker that joins while a fan-out runs takes over keys that others have not started (rule 15)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniflow.client import Client
from omniflow.flow import collect, each, flow, use
from omniflow.types import Text
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.joining import another_worker, let_go
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage

WORDS = 24
TEXT = " ".join(f"word{number}" for number in range(WORDS))
# A worker's process has to start in mid-run, on a machine that may be busy.
DEADLINE_S = 110.0
# How many a puppet runs at a time.
AT_ONCE = 4

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")


@flow
def shared_out(text: Text) -> Text:
    """Each word is held until the test lets it go."""
    return third.join(collect(second.hold(word) for word in each(first.words(text))))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PuppetCluster]:
    workers = [{"name": "ends", "roles": ["first", "third"]}, {"name": "early", "roles": ["second"]}]
    limits = {**LIMITS, "max_deadline_s": DEADLINE_S}
    with running(write_cluster(tmp_path / "joining", workers, limits)) as started:
        yield started


async def test_rule_15_a_worker_that_joins_takes_a_fair_share_of_a_running_fan_out(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(shared_out, {"text": TEXT}, deadline=DEADLINE_S)
    held = await stage.acts(AT_ONCE)
    assert {act.worker for act in held} == {"early"}
    async with another_worker(cluster, "early", "late"):
        # The one that was there first is held at what it runs: whatever else runs, runs at the one that joined.
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(WORDS // 2):
                while stage.quiet:  # noqa: ASYNC110 - a process starts meanwhile, longer than the stage is patient
                    await asyncio.sleep(0.05)
                act = await stage.act()
                assert act.worker == "late"
                act.go_on()
        for act in held:
            act.go_on()
        rest = asyncio.create_task(let_go(stage))
        try:
            assert await job.result() == {"result": TEXT}
        finally:
            rest.cancel()
            await asyncio.wait({rest})
    assert job.report is not None
    runs = [attempt for attempt in job.report.activations if attempt.node == "second.hold"]
    assert len(runs) == WORDS, "a move is no attempt"
