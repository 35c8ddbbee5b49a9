"""A job as OpenTelemetry spans, and on their way to a collector."""

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from omniflow.errors import InvalidArgument, Unavailable
from omniflow.trace import trace_of
from omniflow.trace.export import export_spans, traces_endpoint
from omniflow.trace.spans import spans_of
from omniflow.v1 import error_pb2, job_pb2
from tests.unit.trace.collector import Collector
from tests.unit.trace.examples import example_flow, pdf_job, ran

ARRIVED_NS = 1_700_000_000_000_000_000


def spans() -> list[ReadableSpan]:
    return spans_of(trace_of(pdf_job(), example_flow("pdf:read_pdf")), "speak")


def by_name(found: list[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in found if span.name == name]


def test_a_job_is_one_trace_with_a_child_for_each_attempt() -> None:
    found = spans()
    (job,) = by_name(found, "job read_pdf")
    assert job.parent is None
    assert job.kind is SpanKind.SERVER
    assert (job.start_time, job.end_time) == (ARRIVED_NS, ARRIVED_NS + 210_000)
    assert [event.name for event in job.events] == ["first result frame"]
    children = [span for span in found if span is not job]
    assert [span.name for span in children] == ["splitter.pages", "ocr.read", "ocr.read", "llm.answer"]
    assert job.context is not None
    for child in children:
        assert child.parent is not None
        assert child.parent.span_id == job.context.span_id
        assert child.context is not None
        assert child.context.trace_id == job.context.trace_id
    assert len({span.context.span_id for span in found if span.context}) == len(found)


def test_an_attempt_says_where_when_and_how_much_in_the_conventions_names() -> None:
    (answer,) = by_name(spans(), "llm.answer")
    assert answer.attributes is not None
    assert answer.attributes["gen_ai.usage.input_tokens"] == 41
    assert answer.attributes["omniflow.queue.duration_us"] == 10
    assert answer.attributes["omniflow.output.result.bytes"] == 9
    assert answer.resource.attributes["service.name"] == "omniflow-worker"
    assert answer.resource.attributes["service.instance.id"] == "llm"
    assert answer.resource.attributes["service.namespace"] == "speak"
    assert [(event.name, event.timestamp) for event in answer.events] == [
        ("started", ARRIVED_NS + 140_000),
        ("first frame", ARRIVED_NS + 200_000),
    ]


def test_a_reader_links_to_those_whose_frames_it_read() -> None:
    found = spans()
    (answer,) = by_name(found, "llm.answer")
    pages = by_name(found, "ocr.read")
    assert {link.context.span_id for link in answer.links} == {page.context.span_id for page in pages if page.context}


def test_a_job_exported_twice_is_the_same_trace() -> None:
    ids = [[span.context for span in spans()] for _ in range(2)]
    assert ids[0] == ids[1]


def test_only_what_has_ended_is_a_span() -> None:
    activations = [
        ran("splitter.pages", "splitter", 10, 20, 30, 60),
        ran("ocr.read", "ocr-0", 35, 40, 0, 0, key=[0], state=job_pb2.NodeProgress.STARTED),
    ]
    report = job_pb2.Report(activations=activations, arrived_unix_us=ARRIVED_NS // 1000)
    running = spans_of(trace_of(pdf_job(state=job_pb2.JobStatus.RUNNING, report=report)))
    assert [span.name for span in running] == ["splitter.pages"]
    # What was exported of the job while it ran belongs to the trace that it ends as.
    (ended,) = by_name(spans(), "splitter.pages")
    assert running[0].context == ended.context


def test_a_failure_is_an_error_with_its_code() -> None:
    error = error_pb2.Error(code=error_pb2.ROLE_FAILED, message="llm.answer raised ValueError")
    failed = ran("llm.answer", "llm", 130, 140, 0, 200, state=job_pb2.NodeProgress.FAILED)
    lost = ran("ocr.read", "ocr-0", 10, 20, 0, 30, state=job_pb2.NodeProgress.LOST)
    status = pdf_job(
        state=job_pb2.JobStatus.FAILED, error=error, report=job_pb2.Report(jct_us=210, activations=[lost, failed])
    )
    found = spans_of(trace_of(status))
    types = {span.name: (span.attributes or {}).get("error.type") for span in found}
    assert types == {"job read_pdf": "ROLE_FAILED", "llm.answer": "ROLE_FAILED", "ocr.read": "WORKER_LOST"}
    assert {span.status.status_code for span in found} == {StatusCode.ERROR}
    (job,) = by_name(found, "job read_pdf")
    assert job.status.description == "llm.answer raised ValueError"


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.close()


def test_a_collector_gets_the_spans_by_otlp_with_a_resource_for_each_process(collector: Collector) -> None:
    export_spans(spans(), collector.url)
    assert collector.paths == ["/v1/traces"]
    (request,) = collector.requests
    assert collector.span_names == ["job read_pdf", "llm.answer", "ocr.read", "ocr.read", "splitter.pages"]
    instances = {
        attribute.value.string_value
        for each in request.resource_spans
        for attribute in each.resource.attributes
        if attribute.key == "service.instance.id"
    }
    assert instances == {"scheduler", "splitter", "ocr-0", "ocr-1", "llm"}


def test_a_collector_that_refuses_is_named_with_its_words() -> None:
    refusing = Collector(status=400)
    try:
        with pytest.raises(Unavailable) as caught:
            export_spans(spans(), refusing.url)
    finally:
        refusing.close()
    assert refusing.url in caught.value.message
    assert "400" in caught.value.cause
    assert caught.value.cure


def test_a_base_address_gets_the_path_of_traces_and_a_whole_one_is_left_alone() -> None:
    assert traces_endpoint("http://collector:4318") == "http://collector:4318/v1/traces"
    assert traces_endpoint("https://collector/") == "https://collector/v1/traces"
    assert traces_endpoint("http://collector/otlp/v1/traces") == "http://collector/otlp/v1/traces"
    with pytest.raises(InvalidArgument, match="no address of a collector"):
        traces_endpoint("collector:4318")
