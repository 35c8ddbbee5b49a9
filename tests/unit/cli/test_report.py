"""The table and the timeline of a job."""

from rich.console import Console

from omniflow.report import describe_features, describe_seconds, report_table, report_timeline
from omniflow.v1 import job_pb2

DONE, LOST = job_pb2.NodeProgress.DONE, job_pb2.NodeProgress.LOST
STOPPED = job_pb2.NodeProgress.STOPPED


def _activation(node: str, start: int, first: int, end: int, **more: object) -> job_pb2.ActivationReport:
    fields = {"worker": node, "attempt": 1, "queued_us": start, "state": DONE, **more}
    return job_pb2.ActivationReport(node=node, started_us=start, first_frame_us=first, ended_us=end, **fields)  # type: ignore[arg-type]


REPORT = job_pb2.Report(
    jct_us=1_000_000,
    first_frame_us=600_000,
    activations=[
        _activation("tts", 500_000, 600_000, 1_000_000),
        _activation("ocr", 1_000, 250_000, 250_000, features={"pixels": 403_200}),
        _activation("llm", 250_000, 500_000, 750_000, features={"prompt_tokens": 312, "reused_tokens": 288}),
    ],
)


def _text(report: job_pb2.Report) -> str:
    console = Console(width=140, color_system=None)
    with console.capture() as capture:
        console.print(report_table(report))
    return capture.get()


def test_the_table_has_a_row_an_attempt_in_order_of_start() -> None:
    text = _text(REPORT)
    rows = [line.split()[0] for line in text.splitlines()[4:] if line.strip()]
    assert rows == ["ocr", "llm", "tts"]
    assert "Job took 1.00 s, first frame after 600 ms" in text
    assert "prompt 312 tokens, reused 288" in text
    assert "403,200 pixels" in text
    assert "attempt" not in text


def test_a_second_attempt_shows_what_became_of_the_first() -> None:
    report = job_pb2.Report(
        jct_us=900,
        activations=[
            _activation("llm", 100, 0, 0, worker="llm-0", state=LOST),
            _activation("llm", 500, 700, 800, worker="llm-1", attempt=2),
        ],
    )
    text = _text(report)
    assert "attempt" in text
    assert "lost" in text
    assert text.index("llm-0") < text.index("llm-1")


def test_a_node_without_an_end_says_whether_anything_of_it_was_reported() -> None:
    states = job_pb2.NodeProgress
    report = job_pb2.Report(
        jct_us=900,
        activations=[
            _activation("never", 0, 0, 0, state=states.STATE_UNSPECIFIED),
            _activation("closed", 0, 0, 0, state=STOPPED),
            _activation("late", 100, 300, 0, state=states.FIRST_FRAME),
            _activation("enough", 100, 300, 400, state=STOPPED),
        ],
    )
    rows = {line.split()[0]: line for line in _text(report).splitlines() if line.strip()}
    assert rows["never"].rstrip().endswith(" did not run")
    assert rows["closed"].rstrip().endswith(" did not run")
    assert rows["late"].rstrip().endswith(" end not reported")
    assert rows["enough"].rstrip().endswith(" stopped")


def test_the_timeline_draws_waiting_running_and_streaming_to_scale() -> None:
    lines = report_timeline(REPORT, width=111).splitlines()
    bars = {line.split(" @ ")[0]: line[11:] for line in lines[:3]}
    columns = 100
    assert bars["ocr"].count("▒") == columns // 4
    assert bars["llm"].index("▒") == columns // 4
    assert bars["llm"].index("█") == columns // 2
    assert len(bars["tts"]) == columns
    assert lines[3].rstrip().endswith("1.00 s|")


def test_a_node_shorter_than_a_column_is_still_seen() -> None:
    report = job_pb2.Report(
        jct_us=10**6, activations=[_activation("quick", 5, 6, 7), _activation("late", 999_999, 0, 0)]
    )
    for line in report_timeline(report, 80).splitlines()[:2]:
        assert line[-1] in "▒█░"


def test_a_report_without_nodes_says_so() -> None:
    assert report_timeline(job_pb2.Report()) == "no node ran"


def test_durations_and_features_read_well() -> None:
    said = [describe_seconds(value) for value in (0, 412e-6, 0.0083, 0.0456, 0.456, 1.239, 12.34, 125)]
    assert said == ["0", "412 us", "8.30 ms", "45.6 ms", "456 ms", "1.24 s", "12.3 s", "2 min 5 s"]
    assert describe_features({"zeta": 1.5, "generated_tokens": 41.0, "prompt_tokens": 1312.0}) == (
        "prompt 1,312 tokens, generated 41, zeta 1.50"
    )


def test_what_seldom_happens_is_said_only_where_it_did() -> None:
    usual = {"prompt_tokens": 9.0, "pulled_tokens": 0.0, "generated_tokens": 4.0, "resumed_tokens": 0.0}
    assert describe_features(usual) == "prompt 9 tokens, generated 4"
    assert describe_features(usual | {"resumed_tokens": 3.0}) == "prompt 9 tokens, went on after 3, generated 4"
