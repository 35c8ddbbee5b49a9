"""What an application sees of a job."""

import asyncio

import pytest

from omniflow.client import Client, Frame
from omniflow.errors import Cancelled, InvalidArgument, UnknownFlow, UnknownJob
from omniflow.v1 import error_pb2
from omniflow.v1.job_pb2 import JobEvent, NodeProgress
from tests.unit.client.scripted_scheduler import ScriptedScheduler, accepted, echo_events, ended, frame, text_port

HI = b"\n\x02hi"


async def test_a_result_is_a_value_by_name_and_a_list_for_a_stream(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "one", "parts": ["a", "b"]}))
        stream = await scheduler.stream()
        message = await stream.next()
        stream.say(*echo_events(message.tag, "7", message.submit))
        job = await submitted
        assert await job.result() == {"whole": "one", "pieces": ["a", "b"]}
        assert (job.id, job.flow, job.done) == ("7", "echo", True)
        assert job.report is not None
        assert job.report.jct_us == 1000


async def test_what_never_came_is_none_and_an_empty_stream_is_an_empty_list(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": None}))
        stream = await scheduler.stream()
        message = await stream.next()
        assert not message.submit.inputs
        stream.say(accepted(message.tag, "7"), ended(message.tag, "7"))
        assert await (await submitted).result() == {"whole": None, "pieces": []}


async def test_frames_are_handed_out_as_they_come(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        stream.say(accepted(tag, "7"), frame(tag, "7", 1, 0, HI))
        job = await submitted
        frames = aiter(job)
        assert await anext(frames) == Frame("pieces", 0, "hi")
        stream.say(frame(tag, "7", 1, 1, HI), ended(tag, "7"))
        assert [each async for each in frames] == [Frame("pieces", 1, "hi")]


async def test_progress_is_a_series_of_its_own(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}, progress=True))
        stream = await scheduler.stream()
        message = await stream.next()
        assert message.submit.progress
        tag = message.tag
        step = NodeProgress(node="ocr.read", worker="ocr-0", state=NodeProgress.STARTED)
        stream.say(accepted(tag, "7"), JobEvent(tag=tag, job="7", progress=step), ended(tag, "7"))
        job = await submitted
        assert [each async for each in job.progress()] == [step]


async def test_a_refusal_is_raised_by_submit_and_the_next_job_runs(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        message = await stream.next()
        error = error_pb2.Error(code=error_pb2.UNKNOWN_FLOW, message="gone", field="flow")
        stream.say(JobEvent(tag=message.tag, refused=error))
        with pytest.raises(UnknownFlow, match="gone"):
            await submitted
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        message = await stream.next()
        stream.say(*echo_events(message.tag, "8", message.submit))
        assert (await (await submitted).result())["whole"] == "x"


@pytest.mark.parametrize("called", ["ehco", "chain"])
async def test_an_unknown_flow_is_named_with_those_there_are(scheduler: ScriptedScheduler, called: str) -> None:
    async with Client(scheduler.address) as client:
        errors = []
        for attempt in (client.submit(called, {"text": "x"}), client.signature_of(called, b"")):
            with pytest.raises(UnknownFlow) as caught:
                await attempt
            errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert errors[0].field == "flow"
    assert errors[0].message == f"no flow is called {called!r}; registered are: echo"
    assert ("did you mean 'echo'?" in errors[0].cure) is (called == "ehco")


async def test_a_flow_that_is_there_in_another_version_is_told_so(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        with pytest.raises(UnknownFlow, match="registered, but not in version 09"):
            await client.signature_of("echo", b"\x09")


async def test_a_job_that_failed_raises_its_error_after_its_frames(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        error = error_pb2.Error(code=error_pb2.CANCELLED, message="no longer wanted")
        stream.say(accepted(tag, "7"), frame(tag, "7", 1, 0, HI), ended(tag, "7", error))
        job = await submitted
        frames = aiter(job)
        assert (await anext(frames)).value == "hi"
        with pytest.raises(Cancelled, match="no longer wanted"):
            await anext(frames)
        with pytest.raises(Cancelled):
            await job.result()


async def test_a_wrong_input_is_named_before_anything_is_sent(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        with pytest.raises(InvalidArgument, match="no input 'picture'") as raised:
            await client.submit("echo", {"picture": "x"})
        assert raised.value.field == "picture"
        assert "text: Text" in raised.value.cure
        with pytest.raises(InvalidArgument, match="wants Text") as raised:
            await client.submit("echo", {"text": 5})
        assert raised.value.field == "text"
        with pytest.raises(InvalidArgument, match="in the past"):
            await client.submit("echo", {"text": "x"}, deadline=0.0)
        assert scheduler.streams.empty()


async def test_a_submission_that_is_given_up_is_cancelled_once_it_is_accepted(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        submitted = asyncio.create_task(client.submit("echo", {"text": "x"}))
        stream = await scheduler.stream()
        tag = (await stream.next()).tag
        submitted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitted
        stream.say(accepted(tag, "7"))
        assert (await stream.next()).cancel.job == "7"


async def test_inputs_that_fit_a_version_registered_meanwhile_are_taken(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        assert [flow.name for flow in await client.flows("echo")] == ["echo"]
        with pytest.raises(InvalidArgument):
            await client.submit("echo", {"sound": "x"})
        newer = scheduler.echo
        newer.version = b"\x02"
        newer.inputs.append(text_port("sound"))
        submitted = asyncio.create_task(client.submit("echo", {"sound": "x"}))
        stream = await scheduler.stream()
        message = await stream.next()
        assert [each.name for each in message.submit.inputs] == ["sound"]
        stream.say(accepted(message.tag, "7"), ended(message.tag, "7"))
        await submitted


async def test_a_refused_question_raises_the_error_that_was_sent_along(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        with pytest.raises(UnknownJob, match="no job 9") as raised:
            await client.get("9")
        assert raised.value.field == "job"


async def test_a_large_job_has_a_call_of_its_own(scheduler: ScriptedScheduler) -> None:
    async with Client(scheduler.address) as client:
        job = await client.submit("echo", {"text": "x" * 2_000_000})
        assert len((await job.result())["whole"]) == 2_000_000
        assert (await scheduler.submits.get()).flow == "echo"
        assert scheduler.streams.empty() or (await scheduler.stream()).received.empty()
