"""Rule 10 up to the client: one that does not take what it asked for slows whoever makes it, and nobody else."""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc.aio
import psutil
import pytest

from omniflow.client import Client
from omniflow.flow import flow, use
from omniflow.types import Stream, Text, encode
from omniflow.v1.job_pb2 import Input, JobEvent, SubmitRequest
from omniflow.v1.job_pb2_grpc import JobServiceStub
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.stage import Act, Stage
from tests.cluster_fixtures.submit import next_job_runs
from tests.cluster_fixtures.unruly import Unruly

MEBIBYTE = 1024 * 1024
FRAME = 64 * 1024
# A window is 4 MiB; Python and gRPC have buffers of their own. Made without a brake, it would be ten times that.
GROWTH = 100 * MEBIBYTE
PATIENCE_S = 20.0
# So long without a frame: it is held up.
QUIET_S = 2.5

unruly = use(Unruly)


@flow
def steady(text: Text) -> Stream[Text]:
    return unruly.steady(text)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    workers: list[dict[str, Any]] = [
        {"name": "tame", "roles": ["first", "second", "third"]},
        {"name": "wild", "roles": ["unruly"], "retention_disk_bytes": 1024 * MEBIBYTE},
    ]
    with running(write_cluster(tmp_path_factory.mktemp("slow"), workers)) as started:
        yield started


async def until_held_up(act: Act) -> int:
    """How many frames it has made when no more come."""
    made = 0
    while True:
        try:
            async with asyncio.timeout(QUIET_S):
                made = 1 + int(await act.says())
        except TimeoutError:
            return made


async def test_rule_10_a_client_that_takes_nothing_slows_its_producer_and_nobody_else(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    await client.register_flow(steady)
    scheduler = psutil.Process(cluster.process("scheduler").pid)
    before = scheduler.memory_info().rss
    request = SubmitRequest(flow="steady", inputs=[Input(name="text", frames=[encode("x")])])
    async with grpc.aio.insecure_channel(cluster.address) as channel:
        call = JobServiceStub(channel).Submit(request)
        act = await stage.act()
        made = await until_held_up(act)
        assert made * FRAME > 2 * MEBIBYTE, "what comes unasked, came"
        grown = scheduler.memory_info().rss - before
        assert grown < GROWTH, f"the scheduler has grown by {grown / MEBIBYTE:.0f} MiB"
        await next_job_runs(client)
        # It takes all that was made, and more: so its producer goes on.
        frames = 0
        async with asyncio.timeout(PATIENCE_S):
            while frames < made + 100:
                event = await call.read()
                assert isinstance(event, JobEvent), "the stream goes on"
                frames += event.HasField("frame")
        call.cancel()
    while (said := await act.says()) != "stopped":
        assert int(said) >= made
