"""Rule 10 up to the client: one that does not take what it asked for slows whoever makes it, and nobody else."""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc.aio
import psutil
import pytest

from omniflow.client import Client, Job
from omniflow.errors import Cancelled
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
# Of the client, and of the scheduler.
WINDOW = 4 * MEBIBYTE
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


def waiting_bytes(job: Job) -> int:
    """What waits in the client to be read."""
    return sum(len(frame.payload) for frame in job._frames)


async def test_rule_10_a_job_that_is_read_slowly_slows_its_producer_and_no_other_job_of_its_client(
    client: Client, stage: Stage
) -> None:
    job = await client.submit(steady, {"text": "x"})
    act = await stage.act()
    frames = aiter(job)
    assert (await anext(frames)).seq == 0
    made = await until_held_up(act)
    assert WINDOW - 2 * FRAME < waiting_bytes(job) < WINDOW + 2 * FRAME
    # Its window here, that of the scheduler, and what was made before it heard that it must wait.
    assert made * FRAME < 10 * WINDOW
    await next_job_runs(client)
    # It reads on, all that was made and more: so its producer goes on.
    async with asyncio.timeout(PATIENCE_S):
        while (await anext(frames)).seq < made + 100:
            assert waiting_bytes(job) < WINDOW + 2 * FRAME
    # What waits here and at the scheduler is still handed out, and then its end.
    assert await job.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Cancelled):
            [frame async for frame in frames]
    while (said := await act.says()) != "stopped":
        assert int(said) >= made


async def test_rule_10_a_job_whose_reader_has_left_off_is_held_up_by_nobody(client: Client, stage: Stage) -> None:
    job = await client.submit(steady, {"text": "x"})
    act = await stage.act()
    async for frame in job:
        assert frame.seq == 0
        break
    async with asyncio.timeout(PATIENCE_S):
        while int(await act.says()) * FRAME < 12 * WINDOW:
            assert waiting_bytes(job) < WINDOW + 2 * FRAME
    assert await job.cancel()
    while await act.says() != "stopped":
        pass
