"""From a job's status to its trace."""

from omniflow.trace import trace_of
from omniflow.v1 import error_pb2, job_pb2
from tests.unit.trace.examples import example_flow, pdf_job, ran

RUNNING = job_pb2.JobStatus.RUNNING
LOST, STOPPED = job_pb2.NodeProgress.LOST, job_pb2.NodeProgress.STOPPED


def test_arrows_lead_along_the_edges_of_the_flow() -> None:
    trace = trace_of(pdf_job(), example_flow("pdf:read_pdf"))
    labels = [attempt.label for attempt in trace.attempts]
    arrows = {(labels[arrow.source], labels[arrow.target]) for arrow in trace.arrows}
    assert arrows == {
        ("splitter.pages", "ocr.read[0]"),
        ("splitter.pages", "ocr.read[1]"),
        ("ocr.read[0]", "llm.answer"),
        ("ocr.read[1]", "llm.answer"),
    }
    assert trace.results == {"result": ("llm.answer", "result")}
    assert trace.arrived_ns == 1_700_000_000_000_000_000


def test_of_several_attempts_the_last_one_is_who_gave_and_all_are_who_read() -> None:
    lost = ran("ocr.read", "ocr-0", 35, 40, 80, 85, key=[0], state=LOST)
    status = pdf_job()
    again = next(each for each in status.report.activations if each.key == [0])
    again.attempt = 2
    status.report.activations.append(lost)
    trace = trace_of(status, example_flow("pdf:read_pdf"))
    named = [(attempt.label, attempt.state) for attempt in trace.attempts]
    arrows = [(named[arrow.source], named[arrow.target]) for arrow in trace.arrows]
    assert (("splitter.pages", "done"), ("ocr.read[0]", "lost")) in arrows
    assert (("ocr.read[0] (attempt 2)", "done"), ("llm.answer", "done")) in arrows
    assert (("ocr.read[0]", "lost"), ("llm.answer", "done")) not in arrows


def test_what_was_stopped_was_not_lost_with_a_worker() -> None:
    stopped = ran("ocr.read", "ocr-0", 35, 40, 80, 85, key=[2], state=STOPPED)
    status = pdf_job()
    status.report.activations.append(stopped)
    assert {attempt.label: attempt.state for attempt in trace_of(status).attempts}["ocr.read[2]"] == "stopped"


def test_a_job_that_runs_reaches_to_now_and_what_has_no_end_yet_does_too() -> None:
    activations = [
        ran("splitter.pages", "splitter", 10, 20, 30, 60),
        ran("ocr.read", "ocr-0", 35, 40, 0, 0, key=[0], state=job_pb2.NodeProgress.STARTED),
        ran("ocr.read", "ocr-0", 55, 0, 0, 0, key=[1], state=job_pb2.NodeProgress.QUEUED),
        ran("llm.answer", "llm", 0, 0, 0, 0, state=job_pb2.NodeProgress.STATE_UNSPECIFIED),
    ]
    status = pdf_job(state=RUNNING, age_ms=2, report=job_pb2.Report(activations=activations))
    trace = trace_of(status, example_flow("pdf:read_pdf"), now_ns=10_000_000)
    assert (trace.over, trace.state, trace.ended, trace.arrived_ns) == (False, "running", 2000, 8_000_000)
    ended = {attempt.label: (attempt.state, attempt.ended, attempt.over) for attempt in trace.attempts}
    # What was only bound is left out: it may never run.
    assert ended == {
        "splitter.pages": ("done", 60, True),
        "ocr.read[0]": ("running", 2000, False),
        "ocr.read[1]": ("queued", 2000, False),
    }


def test_what_had_not_said_how_it_ended_when_the_job_did_is_cut_off() -> None:
    open_end = ran("llm.answer", "llm", 130, 140, 150, 0, state=job_pb2.NodeProgress.FIRST_FRAME)
    error = error_pb2.Error(code=error_pb2.CANCELLED, message="cancelled by its client")
    status = pdf_job(
        state=job_pb2.JobStatus.CANCELLED, error=error, report=job_pb2.Report(jct_us=300, activations=[open_end])
    )
    trace = trace_of(status)
    assert [(attempt.state, attempt.ended) for attempt in trace.attempts] == [("cut off", 300)]
    assert trace.error == ("CANCELLED", "cancelled by its client")


def test_without_its_flow_a_trace_has_no_arrows() -> None:
    trace = trace_of(pdf_job())
    assert len(trace.attempts) == 4
    assert not trace.arrows


def test_key_by_key_is_joined_key_by_key_however_wide_the_fan_out() -> None:
    flow = example_flow("pdf:read_pdf")
    wide = [ran("ocr.read", "ocr-0", 3, 4, 5, 6, key=[page]) for page in range(4000)]
    wide.append(ran("llm.answer", "llm", 7, 7, 8, 8))
    trace = trace_of(pdf_job(report=job_pb2.Report(jct_us=10, activations=wide)), flow)
    assert len(trace.arrows) == 4000
    assert len({arrow.source for arrow in trace.arrows}) == 4000


def test_a_fan_out_into_a_fan_out_does_not_make_a_file_of_gigabytes() -> None:
    pages = 3000
    activations = [ran("splitter.pages", "splitter", 1, 1, 2, 9)]
    activations += [ran("ocr.read", "ocr-0", 3, 4, 5, 6, key=[page]) for page in range(pages)]
    activations += [ran("llm.answer", "llm", 7, 7, 8, 8, attempt=number + 1) for number in range(30)]
    status = pdf_job(report=job_pb2.Report(jct_us=10, activations=activations))
    assert len(trace_of(status, example_flow("pdf:read_pdf")).arrows) == 10_000
