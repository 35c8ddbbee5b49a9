"""The Chrome trace: what Perfetto demands of a file, and what a person looks for in it."""

import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omniflow.trace import Attempt, JobTrace, chrome_trace, trace_of
from tests.unit.trace.examples import example_flow, pdf_job

Event = dict[str, Any]


def events_of(trace: JobTrace) -> list[Event]:
    picture = chrome_trace(trace)
    assert json.loads(json.dumps(picture)) == picture
    events: list[Event] = picture["traceEvents"]
    return events


def slices(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    by_track: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_track[event["pid"], event["tid"]].append(event)
    return by_track


def assert_slices_nest(events: list[Event]) -> None:
    for track in slices(events).values():
        open_until: list[int] = []
        for event in sorted(track, key=lambda each: (each["ts"], -each["dur"])):
            end = event["ts"] + event["dur"]
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            assert not open_until or end <= open_until[-1], f"{event} reaches over its parent"
            open_until.append(end)


def assert_arrows_are_tied(events: list[Event]) -> None:
    """Each has a start and an end, both inside a slice of their track, and time goes forward."""
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    by_track = slices(events)
    for number, start in starts.items():
        end = ends[number]
        assert end["bp"] == "e"
        for point in (start, end):
            around = by_track[point["pid"], point["tid"]]
            assert any(each["ts"] <= point["ts"] < each["ts"] + each["dur"] for each in around), point


def test_every_worker_has_a_track_with_queued_and_running_in_each_activation() -> None:
    events = events_of(trace_of(pdf_job(), example_flow("pdf:read_pdf")))
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert set(processes.values()) == {
        "job 00000000000000aa",
        "worker splitter",
        "worker ocr-0",
        "worker ocr-1",
        "worker llm",
        "between workers",
    }
    (llm,) = [pid for pid, name in processes.items() if name == "worker llm"]
    found = {event["name"]: (event["ts"], event["dur"]) for event in slices(events)[llm, 1]}
    assert found == {"llm.answer": (130, 70), "queued": (130, 10), "running": (140, 60)}
    about = next(event["args"] for event in events if event["name"] == "llm.answer")
    assert about["prompt_tokens"] == 41
    assert_slices_nest(events)


def test_first_frames_sampled_frames_and_result_frames_are_instants() -> None:
    events = events_of(trace_of(pdf_job(), example_flow("pdf:read_pdf")))
    instants = sorted((event["name"], event["ts"]) for event in events if event["ph"] == "i")
    assert ("first result frame", 205) in instants
    assert ("first frame", 30) in instants
    assert ("frame", 50) in instants
    assert ("frame of result", 200) in instants


def test_arrows_lead_from_who_made_a_frame_to_who_read_it() -> None:
    events = events_of(trace_of(pdf_job(), example_flow("pdf:read_pdf")))
    assert_arrows_are_tied(events)
    names = [event["name"] for event in events if event["ph"] == "s"]
    assert sorted(names) == [
        "ocr.read.result → llm.answer.pages",
        "ocr.read.result → llm.answer.pages",
        "splitter.pages.result → ocr.read.page",
        "splitter.pages.result → ocr.read.page",
    ]


def test_transfers_say_how_much_went_from_worker_to_worker() -> None:
    events = events_of(trace_of(pdf_job(), example_flow("pdf:read_pdf")))
    transfers = {event["name"]: event["args"] for event in events if event.get("cat") == "transfer"}
    assert transfers["ocr.read[1].result → llm.answer.pages"] == {"frames": 1, "bytes": 44}
    # Of what an `each` hands out, the one frame of this key; the reader knows it.
    assert transfers["splitter.pages.result → ocr.read[1].page"] == {"frames": 1, "bytes": 104}
    named = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "ocr-1 → llm" in named


def test_a_job_without_activations_is_a_file_too() -> None:
    status = pdf_job()
    del status.report.activations[:]
    assert [event["name"] for event in events_of(trace_of(status)) if event["ph"] == "X"] == ["read_pdf"]


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    marks = sorted(draw(st.lists(st.integers(0, 60), min_size=4, max_size=4)))
    reached = draw(st.integers(1, 3))
    return Attempt(
        node=draw(st.sampled_from(["a", "b"])),
        key=(draw(st.integers(0, 3)),),
        worker=draw(st.sampled_from(["one", "two"])),
        number=1,
        state=draw(st.sampled_from(["queued", "running", "done", "failed", "lost", "stopped", "cut off"])),
        queued=marks[0],
        started=marks[1] if reached > 1 else None,
        first_frame=marks[2] if reached > 2 else None,
        ended=marks[3],
    )


@given(st.lists(attempts(), max_size=12))
def test_slices_of_a_track_never_overlap_however_many_activations_ran_at_once(given_attempts: list[Attempt]) -> None:
    ordered = tuple(sorted(given_attempts, key=lambda attempt: attempt.queued))
    trace = JobTrace("1", "f", "", "", "succeeded", True, 0, 60, None, ordered)
    assert_slices_nest(events_of(trace))
