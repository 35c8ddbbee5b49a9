"""A job as OpenTelemetry spans: one trace a job, a span for the job, a child for each attempt of an activation.

Needs the extra `otel`. Names of attributes are those of the semantic conventions where there is one (`error.type`,
`service.*`, `gen_ai.usage.*`), else they begin with "omniflow.". Identifiers are made of the job's, so that a job
exported twice is one trace.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from omniflow.trace.model import Attempt, JobTrace
from omniflow_core import __version__

SCOPE = "omniflow"

# What roles call their work, and what the semantic conventions for generative models call it.
_CONVENTIONS = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "reused_tokens": "gen_ai.usage.cache_read.input_tokens",
    "generated_tokens": "gen_ai.usage.output_tokens",
}
_COUNTS = frozenset(_CONVENTIONS.values())


def spans_of(trace: JobTrace, cluster: str = "") -> list[ReadableSpan]:
    """The spans of everything that has ended, in order of start; the job's own is there once it is over.

    An attempt that was lost, failed, or belongs to a job that failed has the status ERROR. Its readers link to it.
    """
    makers = _Makers(trace, cluster)
    for index, attempt in enumerate(trace.attempts):
        if attempt.over:
            _attempt_span(makers, trace, index, attempt)
    if trace.over:
        _job_span(makers, trace)
    return sorted(makers.finished, key=lambda span: span.start_time or 0)


class _Makers:
    """A provider for each process that spans come from, with fixed identifiers; keeps what they finish."""

    def __init__(self, trace: JobTrace, cluster: str) -> None:
        self.finished: list[ReadableSpan] = []
        self._ids = _FixedIds(trace)
        self._providers: dict[tuple[str, str], TracerProvider] = {}
        self._cluster = cluster
        self._links: defaultdict[int, list[Link]] = defaultdict(list)
        for arrow in trace.arrows:
            made = self._ids.context(_identity(trace.attempts[arrow.source]))
            self._links[arrow.target].append(
                Link(made, {"omniflow.output": arrow.output, "omniflow.input": arrow.input})
            )
        self.job_context: Context = set_span_in_context(NonRecordingSpan(self._ids.context("job")), Context())

    def provider(self, service: str, instance: str) -> TracerProvider:
        if (service, instance) not in self._providers:
            provider = TracerProvider(
                sampler=ALWAYS_ON,
                resource=Resource.create(_resource(service, instance, self._cluster)),
                id_generator=self._ids,
                shutdown_on_exit=False,
            )
            provider.add_span_processor(_Keeper(self.finished))
            self._providers[service, instance] = provider
        return self._providers[service, instance]

    def next_is(self, name: str) -> None:
        """Which identifier the next span gets."""
        self._ids.name = name

    def links(self, attempt: int) -> list[Link]:
        return self._links[attempt]


class _FixedIds(IdGenerator):
    def __init__(self, trace: JobTrace) -> None:
        self._seed = f"{trace.flow_version} {trace.job} {trace.arrived_ns}"
        self.name = "job"

    def generate_trace_id(self) -> int:
        return self._number("trace", 16)

    def generate_span_id(self) -> int:
        return self._number(self.name, 8)

    def context(self, name: str) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(self.generate_trace_id(), self._number(name, 8), is_remote=True, trace_flags=flags)

    def _number(self, name: str, size: int) -> int:
        digest = hashlib.blake2b(f"{self._seed} {name}".encode(), digest_size=size).digest()
        return int.from_bytes(digest, "big") or 1  # 0 means "no identifier"


class _Keeper(SpanProcessor):
    def __init__(self, kept: list[ReadableSpan]) -> None:
        self._kept = kept

    def on_end(self, span: ReadableSpan) -> None:
        self._kept.append(span)


def _job_span(makers: _Makers, trace: JobTrace) -> None:
    attributes: dict[str, AttributeValue] = {
        "omniflow.job.id": trace.job,
        "omniflow.job.state": trace.state,
        "omniflow.flow.name": trace.flow,
        "omniflow.flow.version": trace.flow_version,
    }
    if trace.tenant:
        attributes["omniflow.tenant"] = trace.tenant
    if trace.error is not None:
        attributes["error.type"] = trace.error[0]
    makers.next_is("job")
    span = (
        makers.provider("omniflow-scheduler", "scheduler")
        .get_tracer(SCOPE, __version__)
        .start_span(
            f"job {trace.flow}",
            context=Context(),
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=trace.arrived_ns,
        )
    )
    if trace.first_frame is not None:
        span.add_event("first result frame", timestamp=_at(trace, trace.first_frame))
    if trace.error is not None:
        span.set_status(Status(StatusCode.ERROR, trace.error[1]))
    span.end(_at(trace, trace.ended))


def _attempt_span(makers: _Makers, trace: JobTrace, index: int, attempt: Attempt) -> None:
    makers.next_is(_identity(attempt))
    span = (
        makers.provider("omniflow-worker", attempt.worker)
        .get_tracer(SCOPE, __version__)
        .start_span(
            attempt.node,
            context=makers.job_context,
            kind=SpanKind.INTERNAL,
            attributes=dict(_attributes(trace, attempt)),
            links=makers.links(index),
            start_time=_at(trace, attempt.queued),
        )
    )
    if attempt.started is not None:
        span.add_event("started", timestamp=_at(trace, attempt.started))
    if attempt.first_frame is not None:
        span.add_event("first frame", timestamp=_at(trace, attempt.first_frame))
    if attempt.state in ("failed", "lost"):
        span.set_status(Status(StatusCode.ERROR, f"the attempt {_ended_how(attempt)}"))
    span.end(_at(trace, attempt.ended))


def _attributes(trace: JobTrace, attempt: Attempt) -> Iterator[tuple[str, AttributeValue]]:
    yield "omniflow.job.id", trace.job
    yield "omniflow.flow.name", trace.flow
    yield "omniflow.node", attempt.node
    yield "omniflow.attempt", attempt.number
    yield "omniflow.state", attempt.state
    if attempt.key:
        yield "omniflow.key", list(attempt.key)
    if attempt.state in ("failed", "lost"):
        yield "error.type", "WORKER_LOST" if attempt.state == "lost" else (trace.error or ("ROLE_FAILED",))[0]
    if attempt.started is not None:
        yield "omniflow.queue.duration_us", attempt.started - attempt.queued
    for name, value in attempt.features.items():
        known = _CONVENTIONS.get(name, f"omniflow.work.{name}")
        yield known, round(value) if known in _COUNTS else value
    for traffic in attempt.outputs:
        yield f"omniflow.output.{traffic.port}.frames", traffic.frames
        yield f"omniflow.output.{traffic.port}.bytes", traffic.bytes


def _identity(attempt: Attempt) -> str:
    """The same however much of the job has been reported."""
    return f"{attempt.node} {attempt.key} {attempt.number}"


def _ended_how(attempt: Attempt) -> str:
    return "was lost with its worker" if attempt.state == "lost" else "failed"


def _resource(service: str, instance: str, cluster: str) -> Mapping[str, AttributeValue]:
    resource: dict[str, AttributeValue] = {
        "service.name": service,
        "service.instance.id": instance,
        "service.version": __version__,
    }
    return {**resource, "service.namespace": cluster} if cluster else resource


def _at(trace: JobTrace, us: int) -> int:
    return trace.arrived_ns + us * 1000
