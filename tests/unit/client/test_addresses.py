"""A client that is told several addresses finds the scheduler that leads, also when that is another one later."""

import asyncio
from contextlib import AsyncExitStack

import grpc.aio
import pytest

from omniflow.client import Client
from omniflow.errors import InvalidArgument, Unavailable
from tests.cluster_fixtures.ports import free_port
from tests.unit.client.scripted_scheduler import ScriptedScheduler, accepted, ended, frame, scripted_scheduler

ONE, TWO = b"\n\x03one", b"\n\x03two"


async def test_a_scheduler_that_stands_by_is_passed_over(scheduler: ScriptedScheduler) -> None:
    """It listens, as the process does before it leads, and answers nothing."""
    standby = grpc.aio.server()
    listening = f"127.0.0.1:{standby.add_insecure_port('127.0.0.1:0')}"
    async with Client([listening, scheduler.address]) as client:
        assert client.address == scheduler.address
        assert [each.name for each in await client.flows()] == ["echo"]
    async with Client(f"{listening}, {scheduler.address}") as client:
        assert client.address == scheduler.address
    await standby.stop(0)


async def test_a_job_is_resumed_at_the_scheduler_that_took_over() -> None:
    then = f"127.0.0.1:{free_port('127.0.0.1')}"
    async with AsyncExitStack() as stack, AsyncExitStack() as life:
        before = await life.enter_async_context(scripted_scheduler())
        client = await stack.enter_async_context(Client((before.address, then), connect_timeout=20))
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await before.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"), frame(tag, "7", 1, 0, ONE))
        job = await submitted
        assert (await anext(aiter(job))).value == "one"
        after = await stack.enter_async_context(scripted_scheduler(then))
        await life.aclose()
        again = await after.stream()
        message = await again.next()
        assert (message.watch.job, dict(message.watch.next_seq)) == ("7", {"pieces": 1})
        again.say(frame(message.tag, "7", 1, 1, TWO), ended(message.tag, "7"))
        assert await job.result() == {"whole": None, "pieces": ["two"]}
        assert client.address == then


async def test_when_nobody_serves_every_address_is_named() -> None:
    nobody = [f"127.0.0.1:{free_port('127.0.0.1')}" for _ in range(2)]
    with pytest.raises(Unavailable) as caught:
        async with Client(nobody, connect_timeout=0.3):
            pass
    assert all(address in str(caught.value) for address in nobody)


@pytest.mark.parametrize("address", ["", " , ", ()])
def test_no_address_at_all_is_refused(address: str | tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        Client(address)
