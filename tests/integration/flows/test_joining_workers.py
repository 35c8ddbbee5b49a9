"""A worker that joins while a fan-out runs takes over keys that others have not started (rule 15)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniflow.client import Client
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
from tests.cluster_fixtures.stage import Stage

WORDS = 24
TEXT = words(WORDS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PuppetCluster]:
    with running(write_early_cluster(tmp_path / "joining")) as started:
        yield started


async def test_rule_15_a_worker_that_joins_takes_a_fair_share_of_a_running_fan_out(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit(held_words, {"text": TEXT}, deadline=DEADLINE_S)
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
