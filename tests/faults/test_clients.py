"""What clients may do to their jobs, and to each other's."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from omniflow.client import Client
from omniflow.errors import Cancelled, ResourceExhausted
from omniflow.types import encode
from omniflow.v1.job_pb2 import ClientBatch, ClientMessage, Input, JobStatus, SubmitRequest
from omniflow.v1.job_pb2_grpc import JobServiceStub
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import PATIENCE_S, next_job_runs
from tests.cluster_fixtures.wire import Wire

VANISHING = Path(__file__).with_name("vanishing_client.py")


async def start_client(address: str, mode: str) -> tuple[asyncio.subprocess.Process, str]:
    """A client in a process of its own, and the id of the job that it has submitted."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(VANISHING),
        address,
        "held",
        mode,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    job = (await process.stdout.readline()).decode().strip()
    assert job
    return process, job


async def test_a_cancelled_job_stops_within_a_step(client: Client, stage: Stage) -> None:
    job = await client.submit("held", {"text": "x"})
    act = await stage.act()
    assert await job.cancel("the user went home")
    assert await act.says() == "cancelled"
    with pytest.raises(Cancelled) as caught:
        await job.result()
    assert "the user went home" in caught.value.message
    assert not await client.cancel(job.id)
    await next_job_runs(client)


async def test_a_stock_client_of_the_protocol_submits_and_hears_the_end(client: Client, shared: PuppetCluster) -> None:
    await client.cluster_status()  # everything is well
    inputs = [Input(name="text", frames=[encode("a b c")])]
    submit = ClientMessage(tag=7, submit=SubmitRequest(flow="chain", inputs=inputs, deadline_ms=20_000))
    frames: list[object] = []
    async with grpc.aio.insecure_channel(shared.address) as channel, asyncio.timeout(PATIENCE_S):
        stub: Any = JobServiceStub(channel)
        call = stub.Connect()
        await call.write(ClientBatch(messages=[submit]))
        ended = None
        while ended is None:
            for event in (await call.read()).events:
                assert event.tag == 7
                if event.HasField("frame"):
                    frames.append(event.frame)
                if event.HasField("ended"):
                    ended = event.ended
        assert not ended.HasField("error")
        assert frames
        call.cancel()


async def test_a_job_whose_client_leaves_is_cancelled(client: Client, shared: PuppetCluster, stage: Stage) -> None:
    async with Client(shared.address) as leaving:
        job = await leaving.submit("held", {"text": "x"})
        act = await stage.act()
    assert await act.says() == "cancelled"
    assert (await client.get(job.id)).state == JobStatus.CANCELLED
    await next_job_runs(client)


async def test_a_client_whose_connection_breaks_comes_back_to_its_job(shared: PuppetCluster, stage: Stage) -> None:
    async with Wire(shared.address) as wire, Client(wire.address) as client:
        job = await client.submit("spoken", {"text": "one two three four five"})
        act = await stage.act()
        wire.cut()
        act.go_on()
        assert await job.result() == {"result": ["one", "two", "three", "four", "five"]}
        assert job.error is None
    assert stage.quiet


async def test_a_job_whose_client_is_killed_is_cancelled(client: Client, shared: PuppetCluster, stage: Stage) -> None:
    process, job = await start_client(shared.address, "attached")
    act = await stage.act()
    process.kill()
    await process.wait()
    assert await act.says() == "cancelled"
    assert (await client.get(job)).state == JobStatus.CANCELLED
    await next_job_runs(client)


async def test_a_detached_job_outlives_its_client(client: Client, shared: PuppetCluster, stage: Stage) -> None:
    process, job = await start_client(shared.address, "detach")
    act = await stage.act()
    process.kill()
    await process.wait()
    await next_job_runs(client)
    act.go_on()
    watched = await client.watch(job)
    assert await watched.result() == {"result": "x"}


async def test_a_full_queue_refuses_at_once_with_a_hint(client: Client, stage: Stage) -> None:
    limit = int(LIMITS["queue_limit"])
    jobs = {job.id: job for job in [await client.submit("held", {"text": "x"}) for _ in range(limit)]}
    with pytest.raises(ResourceExhausted) as caught:
        await client.submit("chain", {"text": "one too many"})
    assert caught.value.retry_after > 0
    assert str(limit) in caught.value.message
    assert caught.value.cure
    act = await stage.act()
    act.go_on()
    assert await jobs[act.job].result() == {"result": "x"}
    late = await client.submit("chain", {"text": "there is room again"})
    for job in jobs.values():
        await job.cancel()
    assert await late.result() == {"result": "there is room again"}


async def test_a_key_seen_before_returns_the_same_job(client: Client, shared: PuppetCluster, stage: Stage) -> None:
    job = await client.submit("told", {"text": "x"}, idempotency_key="order 66")
    assert await job.result() == {"result": "x"}
    async with Client(shared.address) as other:
        again = await other.submit("told", {"text": "x"}, idempotency_key="order 66")
        assert again.existed
        assert again.id == job.id
        assert await again.result() == {"result": "x"}
        # Keys of one tenant are nothing to another.
        foreign = await other.submit("told", {"text": "x"}, idempotency_key="order 66", tenant="somebody else")
        assert foreign.id != job.id
        await foreign.result()
    acts = await stage.acts(2)
    assert [act.tenant for act in acts] == ["", "somebody else"]
    assert stage.quiet
