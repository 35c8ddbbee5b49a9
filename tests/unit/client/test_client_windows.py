"""Rule 10 at the client: a window of each result waits to be read, and the scheduler hears how far more may come."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator

import pytest

from omniflow.client import Client
from omniflow.client.intake import Intake
from omniflow.client.job import Job
from omniflow.client.window import Extent
from omniflow.errors import InvalidArgument
from omniflow.types import encode
from omniflow.v1.job_pb2 import JobEvent, NodeProgress, Room
from tests.unit.client.scripted_scheduler import ScriptedScheduler, Stream, accepted, ended, frame

WINDOW = 4
BYTES = 1000
PIECES = 1


def pieces(tag: int, numbers: range) -> list[JobEvent]:
    """Frames of the second result."""
    return [frame(tag, "7", PIECES, number, encode(str(number))) for number in numbers]


async def started(scheduler: ScriptedScheduler, client: Client) -> tuple[Job, Stream, int]:
    submitting = asyncio.create_task(client.submit("echo", {"text": "x"}, progress=True))
    stream = await scheduler.stream()
    message = await stream.next()
    assert (message.window.frames, message.window.bytes) == (WINDOW, BYTES)
    stream.say(accepted(message.tag, "7"))
    return await submitting, stream, message.tag


async def room(stream: Stream, tag: int) -> Room:
    message = await stream.next()
    assert (message.tag, message.room.job, message.room.port) == (tag, "7", PIECES)
    return message.room


def windowed(scheduler: ScriptedScheduler) -> Client:
    return Client(scheduler.address, window_frames=WINDOW, window_bytes=BYTES)


async def test_rule_10_more_may_come_with_every_half_window_that_was_read(scheduler: ScriptedScheduler) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        stream.say(*pieces(tag, range(WINDOW)))
        frames = aiter(job)
        assert [(await anext(frames)).value for _ in range(2)] == ["0", "1"]
        said = await room(stream, tag)
        size = sum(len(encode(str(number))) for number in range(2))
        assert (said.frames, said.bytes, said.unread) == (WINDOW + 2, BYTES + size, False)
        stream.say(*pieces(tag, range(WINDOW, WINDOW + 2)))
        assert [(await anext(frames)).value for _ in range(4)] == ["2", "3", "4", "5"]
        assert (await room(stream, tag)).frames == WINDOW + 4
        assert (await room(stream, tag)).frames == WINDOW + 6
        stream.say(ended(tag, "7"))
        assert [left.value async for left in frames] == []


async def test_what_is_unread_counts_when_a_broken_stream_is_resumed(scheduler: ScriptedScheduler) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        stream.say(*pieces(tag, range(WINDOW)))
        frames = aiter(job)
        assert (await anext(frames)).value == "0"
        stream.break_off()
        again = await scheduler.stream()
        watch = await again.next()
        assert dict(watch.watch.next_seq) == {"pieces": WINDOW}
        assert watch.window.frames == 1, "three wait to be read"
        # Nothing of the other result waits.
        other = (await again.next()).room
        assert (other.port, other.frames, other.bytes) == (0, WINDOW, BYTES)
        again.say(accepted(tag, "7"), *pieces(tag, range(WINDOW, WINDOW + 1)))
        assert [(await anext(frames)).value for _ in range(2)] == ["1", "2"]
        assert (await room(again, tag)).frames == 3, "counted from the watch: one came, two were read since"
        again.say(ended(tag, "7"))
        assert [left.value async for left in frames] == ["3", "4"]


async def test_rule_10_a_window_that_nobody_reads_is_said_to_be_unread_until_somebody_does(
    scheduler: ScriptedScheduler,
) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        stream.say(*pieces(tag, range(WINDOW)))
        said = await room(stream, tag)
        assert (said.frames, said.unread) == (WINDOW, True)
        frames = aiter(job)
        assert (await anext(frames)).value == "0"
        assert not (await room(stream, tag)).unread
        # It leaves off, and the window fills up again.
        await anext(frames)
        assert (await room(stream, tag)).frames == WINDOW + 2
        assert isinstance(frames, AsyncGenerator)
        await frames.aclose()
        stream.say(*pieces(tag, range(WINDOW, WINDOW + 2)))
        assert (await room(stream, tag)).unread


async def test_rule_10_a_reader_that_leaves_off_before_half_a_window_holds_nobody_up(
    scheduler: ScriptedScheduler,
) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        stream.say(*pieces(tag, range(1)))
        async for each in job:
            assert each.value == "0"
            break
        stream.say(*pieces(tag, range(1, WINDOW)))
        said = await room(stream, tag)
        assert (said.frames, said.unread) == (WINDOW + 1, True)


async def test_result_takes_in_whatever_comes(scheduler: ScriptedScheduler) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        waiting = asyncio.create_task(job.result())
        allowed, sent = WINDOW, 0
        while sent < 5 * WINDOW:
            stream.say(*pieces(tag, range(sent, allowed)))
            sent = allowed
            while allowed < sent + WINDOW:
                allowed = (await room(stream, tag)).frames
        stream.say(ended(tag, "7"))
        assert (await waiting)["pieces"] == [str(number) for number in range(sent)]


async def test_a_result_that_was_given_up_waiting_for_has_lost_nothing(scheduler: ScriptedScheduler) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        waiting = asyncio.create_task(job.result())
        stream.say(*pieces(tag, range(WINDOW)))
        while (await room(stream, tag)).frames < 2 * WINDOW:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stream.say(*pieces(tag, range(WINDOW, 2 * WINDOW)))
        assert (await room(stream, tag)).unread
        stream.say(ended(tag, "7"))
        assert [each.value async for each in job] == [str(number) for number in range(2 * WINDOW)]


async def test_whoever_follows_the_progress_of_an_unread_job_sees_its_end(scheduler: ScriptedScheduler) -> None:
    async with windowed(scheduler) as client:
        job, stream, tag = await started(scheduler, client)
        steps = aiter(job.progress())
        stream.say(
            *pieces(tag, range(WINDOW)), JobEvent(tag=tag, job="7", progress=NodeProgress(state=NodeProgress.DONE))
        )
        assert (await anext(steps)).state == NodeProgress.DONE
        while (said := await room(stream, tag)).frames < 2 * WINDOW:
            assert not said.unread
        stream.say(*pieces(tag, range(WINDOW, 2 * WINDOW)), ended(tag, "7"))
        assert [step async for step in steps] == []
        assert len((await job.result())["pieces"]) == 2 * WINDOW


async def test_a_large_job_waits_for_its_reader_in_its_own_call(scheduler: ScriptedScheduler) -> None:
    parts = [f"{number:07}" + "x" * 100_000 for number in range(100)]
    async with Client(scheduler.address, window_frames=WINDOW) as client:
        job = await client.submit("echo", {"text": "x", "parts": parts})
        assert (await scheduler.submits.get()).flow == "echo"
        seen = []
        async for each in job:
            seen.append(each.value)
            assert len(job._frames) <= WINDOW
            await asyncio.sleep(0)
        assert seen == ["x", *parts]


@pytest.mark.parametrize(("frames", "size", "field"), [(0, 1, "window_frames"), (1, -1, "window_bytes")])
def test_a_window_of_nothing_is_refused_by_name(frames: int, size: int, field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        Client("127.0.0.1:9", window_frames=frames, window_bytes=size)
    assert raised.value.field == field


class World:
    """A scheduler that sends what it may of two results, a client that reads as it likes, and a stream that breaks."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.window = Extent(self.random.randint(1, 6), self.random.randint(1, 60))
        self.intake = Intake(self.window)
        self.intake.open(2)
        self.intake.tell = self.tell
        self.limits = [self.window, self.window]
        self.sent = [Extent(0, 0), Extent(0, 0)]
        self.buffer: deque[tuple[int, int]] = deque()
        self.arrived = 0

    def tell(self, port: int) -> None:
        self.limits[port] = self.intake.allowance(port).extent

    def send(self, port: int) -> bool:
        sent, limit = self.sent[port], self.limits[port]
        if sent.frames >= limit.frames or sent.bytes >= limit.bytes:
            return False
        size = self.random.randint(0, 30)
        self.sent[port] = Extent(sent.frames + 1, sent.bytes + size)
        self.buffer.append((port, size))
        self.arrived += 1
        self.intake.arrived(port, size)
        return True

    def read(self) -> None:
        if self.buffer:
            port, size = self.buffer.popleft()
            self.intake.handed_out(port, size)

    def resume(self) -> None:
        least, more = self.intake.resume()
        self.sent = [Extent(0, 0), Extent(0, 0)]
        self.limits = [least, least]
        for allowance in more:
            self.limits[allowance.port] = allowance.extent

    def unread(self, port: int) -> Extent:
        sizes = [size for at, size in self.buffer if at == port]
        return Extent(len(sizes), sum(sizes))


@pytest.mark.parametrize("seed", range(60))
def test_rule_10_no_more_than_a_window_waits_and_a_reader_never_waits_in_vain(seed: int) -> None:
    world = World(seed)
    with world.intake.reading():
        for _ in range(400):
            match world.random.choice(["send", "send", "read", "resume"]):
                case "send":
                    world.send(world.random.randrange(2))
                case "read":
                    world.read()
                case _ if world.random.random() < 0.2:
                    world.resume()
            for port in range(2):
                unread = world.unread(port)
                # The last frame may go beyond in bytes.
                assert unread.frames <= world.window.frames
                assert unread.bytes < world.window.bytes + 30
            if not world.buffer:
                assert all(world.limits[port].frames > world.sent[port].frames for port in range(2))
                assert all(world.limits[port].bytes > world.sent[port].bytes for port in range(2))
    assert world.arrived > 20
