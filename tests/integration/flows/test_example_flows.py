"""The example flows on real processes: started from their cluster files, driven by a client."""

import shlex
import shutil
import wave
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omniflow import Audio, Image
from omniflow.client import Client
from omniflow.errors import LoopLimit
from omniflow.types import AnyRecord
from omniflow.v1.job_pb2 import Report
from tests.cluster_fixtures.command import omniflow
from tests.integration.flows.conftest import EXAMPLES, Example

PATIENCE_S = 25.0
SOUND = Audio.from_array(np.zeros(800, np.float32), sample_rate=8_000)


def picture(width: int) -> Image:
    return Image.from_array(np.zeros((4, width), np.uint8))


def scan_of(pages: list[Image]) -> AnyRecord:
    """As the example's own `Scan`, which this process does not import."""
    return AnyRecord("Scan", {"title": "a title", "pages": pages})


async def run(on: Example, flow: str, inputs: dict[str, Any], **parameters: Any) -> tuple[dict[str, Any], Report]:
    """Its results, and where its time went."""
    async with Client(on.address) as client:
        job = await client.submit(flow, inputs, parameters=parameters, deadline=PATIENCE_S)
        results = await job.result()
        assert job.report is not None
        return results, job.report


def activations(report: Report) -> Counter[str]:
    return Counter(activation.node for activation in report.activations)


async def submitted(on: Example) -> list[str]:
    """Runs the `submit` that its cluster file shows; gives the names of what it wrote."""
    lines = (on.folder / "cluster.yaml").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("#   omniflow submit ")]
    _, *arguments = shlex.split(line.removeprefix("#"))
    done = await omniflow(*arguments, folder=on.folder)
    assert done.status == 0, done.output
    return sorted(file.name for file in (on.folder / "out").iterdir())


# pdf: fan-out over workers, counted join


async def test_pages_are_read_in_parallel_by_two_workers_and_joined_in_order(pdf: Example) -> None:
    scan = scan_of([picture(10 + page) for page in range(10)])
    results, report = await run(pdf, "read_pdf", {"scan": scan, "question": "How big?"})
    pages = ", ".join(f"{10 + page}x4" for page in range(10))
    assert results == {"result": f"How big? 10 pages: {pages}"}
    assert activations(report) == {"splitter.pages": 1, "ocr.read": 10, "llm.answer": 1}
    readers = {tuple(each.key): each.worker for each in report.activations if each.node == "ocr.read"}
    assert set(readers) == {(page,) for page in range(10)}
    assert set(readers.values()) == {"ocr-0", "ocr-1"}


async def test_a_document_without_pages_is_answered_from_none(pdf: Example) -> None:
    results, report = await run(pdf, "read_pdf", {"scan": scan_of([]), "question": "And?"})
    assert results == {"result": "And? 0 pages: "}
    assert activations(report) == {"splitter.pages": 1, "llm.answer": 1}


async def test_what_leaves_a_fan_out_without_a_join_is_a_stream_in_order(pdf: Example) -> None:
    scan = scan_of([picture(1 + page) for page in range(6)])
    async with Client(pdf.address) as client:
        job = await client.submit("read_pages", {"scan": scan}, deadline=PATIENCE_S)
        assert [frame.value async for frame in job] == [f"{1 + page}x4" for page in range(6)]


async def test_a_fan_out_of_two_thousand_pages_is_joined(pdf: Example) -> None:
    page = picture(3)
    results, _report = await run(pdf, "read_pdf", {"scan": scan_of([page] * 2_000), "question": "?"})
    assert results["result"].startswith("? 2000 pages: 3x4, ")


# omni: encoders side by side, then streams from role to role


async def test_what_the_encoders_saw_and_heard_reaches_the_thinker_and_both_answers_stream(omni: Example) -> None:
    inputs = {"text": "What is this", "images": [picture(3), picture(4)], "sounds": [SOUND]}
    results, report = await run(omni, "omni", inputs)
    assert results["text"] == ["What", "is", "this", "2 images", "1 sounds"]
    assert [round(sound.seconds, 2) for sound in results["speech"]] == [len(word) / 100 for word in results["text"]]
    assert activations(report) == {
        "vision.encode": 2,
        "hearing.encode": 1,
        "thinker.generate": 1,
        "talker.speak": 1,
        "vocoder.decode": 1,
    }


async def test_an_empty_fan_out_joins_to_an_empty_list(omni: Example) -> None:
    results, report = await run(omni, "omni", {"text": "Hello", "images": [], "sounds": []})
    assert results["text"] == ["Hello", "0 images", "0 sounds"]
    assert activations(report) == {"thinker.generate": 1, "talker.speak": 1, "vocoder.decode": 1}


async def test_the_command_that_the_omni_cluster_file_shows_answers_in_words_and_in_sound(omni: Example) -> None:
    with wave.open(str(omni.folder / "hello.wav"), "wb") as hello:
        hello.setparams((1, 2, 8_000, 800, "NONE", "not compressed"))
        hello.writeframes(bytes(1_600))
    picture_of = Path("speak") / "receipt.png"
    (omni.folder / "examples" / picture_of).parent.mkdir(parents=True)
    shutil.copy(EXAMPLES / picture_of, omni.folder / "examples" / picture_of)
    assert await submitted(omni) == ["speech.wav", "text.txt"]
    assert (omni.folder / "out" / "text.txt").read_text() == "Whatisthis?1 images1 sounds"


# agent: a bounded cycle that takes another branch each round


async def test_a_loop_takes_the_branch_that_each_round_chooses_and_gives_out_its_part_at_once(agent: Example) -> None:
    async with Client(agent.address) as client:
        job = await client.submit("compose", {"request": "tiat"}, deadline=PATIENCE_S)
        parts = [frame.value async for frame in job]
        assert [kind_of(part) for part in parts] == ["text", "image", "audio", "text"]
        assert job.report is not None
        ran = activations(job.report)
    assert ran["planner.next"] == 4
    assert (ran["writer.write"], ran["painter.draw"], ran["speaker.say"]) == (2, 1, 1)


async def test_a_branch_that_no_round_takes_is_bound_to_nobody(agent: Example) -> None:
    _results, report = await run(agent, "compose", {"request": "tt"})
    ran = activations(report)
    assert (ran["writer.write"], ran["painter.draw"], ran["speaker.say"]) == (2, 0, 0)


async def test_a_loop_that_is_not_over_at_its_bound_fails_by_its_name(agent: Example) -> None:
    with pytest.raises(LoopLimit, match=r"agent_flow.py:\d+: loop `loop` was not over after 32 rounds") as failed:
        await run(agent, "compose", {"request": "t" * 33})
    assert (failed.value.node, failed.value.worker) == ("loop", "planner")
    results, _report = await run(agent, "compose", {"request": "t" * 32})
    assert len(results["result"]) == 32


async def test_the_command_that_the_agent_cluster_file_shows_writes_each_part(agent: Example) -> None:
    assert await submitted(agent) != []


async def test_many_loops_at_once_keep_to_themselves(agent: Example) -> None:
    requests = ["tia"[index % 3] * (1 + index % 5) for index in range(24)]
    async with Client(agent.address) as client:
        jobs = [await client.submit("compose", {"request": each}, deadline=PATIENCE_S) for each in requests]
        answers = [(await job.result())["result"] for job in jobs]
    assert [[kind_of(part) for part in answer] for answer in answers] == [
        [{"t": "text", "i": "image", "a": "audio"}[letter] for letter in request] for request in requests
    ]


def kind_of(part: AnyRecord) -> str:
    fields = part.fields
    (kind,) = [name for name, value in fields.items() if value is not None]
    return str(kind)


# painting: a state that goes from round to round, beside a stream


async def test_a_state_goes_from_round_to_round_and_leaves_the_loop_at_its_end(painting: Example) -> None:
    results, report = await run(painting, "paint", {"prompt": "a red boat"}, steps=5)
    assert results["thoughts"] == ["a picture of a", "a picture of red", "a picture of boat"]
    assert (results["image"].width, results["image"].height) == (16, 16)
    steps = [tuple(each.key) for each in report.activations if each.node == "denoiser.step"]
    assert sorted(steps) == [(round_,) for round_ in range(5)]


async def test_the_same_job_without_a_parameter_runs_the_flows_own_number_of_rounds(painting: Example) -> None:
    _results, report = await run(painting, "paint", {"prompt": "a boat"})
    assert activations(report)["denoiser.step"] == 8


async def test_the_command_that_the_painting_cluster_file_shows_writes_a_picture(painting: Example) -> None:
    assert await submitted(painting) == ["image.png", "thoughts.txt"]
