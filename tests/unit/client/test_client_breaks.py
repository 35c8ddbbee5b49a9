"""A broken stream costs a pause: accepted jobs are resumed, unanswered ones are sent again by key (rule 17)."""

import asyncio
import time

import pytest

from omniflow.client import Client
from omniflow.client.address import FixedAddresses
from omniflow.errors import Unavailable, UnknownFlow
from tests.unit.client.scripted_scheduler import ScriptedScheduler, accepted, ended, frame

ONE, TWO = b"\n\x03one", b"\n\x03two"


async def test_an_accepted_job_is_resumed_from_the_frame_that_is_missing(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}, progress=True))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"), frame(tag, "7", 1, 0, ONE))
        job = await submitted
        assert (await anext(aiter(job))).value == "one"
        stream.break_off()
        again = await scheduler.stream()
        message = await again.next()
        assert message.watch.job == "7"
        assert dict(message.watch.next_seq) == {"pieces": 1}
        assert message.watch.progress
        again.say(
            frame(message.tag, "7", 1, 0, ONE),  # a frame too many does no harm
            frame(message.tag, "7", 1, 1, TWO),
            ended(message.tag, "7"),
        )
        assert await job.result() == {"whole": None, "pieces": ["two"]}


async def test_an_unanswered_job_is_sent_again_under_the_same_key(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        first = await stream.next()
        stream.break_off()
        again = await scheduler.stream()
        second = await again.next()
        assert first.submit.idempotency_key
        assert second.submit == first.submit
        again.say(accepted(second.tag, "7"), ended(second.tag, "7"))
        job = await submitted
        assert await job.result() == {"whole": None, "pieces": []}
        assert again.received.empty()


async def test_no_two_jobs_share_a_key(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        jobs = [asyncio.create_task(client.submit("echo", {"text": "x"})) for _ in range(3)]
        stream = await scheduler.stream()
        messages = [await stream.next() for _ in jobs]
        assert len({message.submit.idempotency_key for message in messages}) == 3
        for message in messages:
            stream.say(accepted(message.tag, str(message.tag)), ended(message.tag, str(message.tag)))
        await asyncio.gather(*jobs)


async def test_closing_the_client_ends_its_stream_and_frees_who_waits(scheduler: ScriptedScheduler) -> None:
    client = Client(scheduler.address)
    submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
    stream = await scheduler.stream()
    tag = (await stream.next()).tag
    stream.say(accepted(tag, "7"))
    job = await submitted
    waiting = asyncio.create_task(job.result())
    await asyncio.sleep(0)
    await client.close()
    async with asyncio.timeout(10):
        await stream.ended.wait()
    with pytest.raises(Unavailable, match="closed"):
        await waiting
    with pytest.raises(Unavailable, match="closed"):
        await client.submit("echo", {"text": "x"})


async def test_an_exception_in_the_block_ends_the_stream(scheduler: ScriptedScheduler) -> None:
    streams = []

    async def application() -> None:
        async with Client(scheduler.address) as client:
            submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
            streams.append(await scheduler.stream())
            streams[0].say(accepted((await streams[0].next()).tag, "7"))
            await submitted
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await application()
    async with asyncio.timeout(10):
        await streams[0].ended.wait()


async def test_a_scheduler_that_is_not_there_is_named_in_time() -> None:
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9") as raised:
        async with Client("127.0.0.1:9", connect_timeout=0.5):
            pass
    assert time.monotonic() - started < 30
    assert "omniflow status" in raised.value.cure


async def test_jobs_of_a_scheduler_that_stays_away_end_in_an_error(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address, connect_timeout=0.5) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"))
        job = await submitted
        client._dialer._finder = FixedAddresses(["127.0.0.1:9"])
        stream.break_off()
        with pytest.raises(Unavailable):
            await job.result()


async def test_a_stream_of_results_is_acknowledged_by_the_megabyte(scheduler: ScriptedScheduler) -> None:
    large = b"\n\x80\x80\x28" + b"x" * (640 * 1024)
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"), *[frame(tag, "7", 1, seq, large) for seq in range(3)])
        await submitted
        ack = (await stream.next()).ack
        assert (ack.job, ack.port, ack.seq) == ("7", 1, 1)
        stream.say(ended(tag, "7"))


async def test_results_under_a_key_that_others_may_know_are_left_to_them(scheduler: ScriptedScheduler) -> None:
    large = b"\n\x80\x80\x28" + b"x" * (640 * 1024)
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}, idempotency_key="mine"))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"), *[frame(tag, "7", 1, seq, large) for seq in range(3)], ended(tag, "7"))
        await (await submitted).result()
        assert stream.received.empty()


async def test_a_client_that_leaves_says_so(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"))
        await submitted
    assert (await stream.next()).WhichOneof("message") == "leave"


async def test_an_unknown_flow_is_told_with_those_that_are_known(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        with pytest.raises(UnknownFlow, match="registered are: echo"):
            await client.signature_of("ehco", b"")
