"""One attempt of an activation as a span of time, whatever of its marks exist."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from omniflow.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class Span:
    """Microseconds since the job's arrival; `queued <= started <= first_frame <= ended`."""

    node: str
    worker: str
    attempt: int
    key: tuple[int, ...]
    queued: int
    started: int
    first_frame: int
    ended: int
    outcome: str = ""
    """Empty when it went well."""
    features: dict[str, float] = field(default_factory=dict)

    @property
    def waited(self) -> int:
        """In the worker's queue, with all inputs there."""
        return self.started - self.queued

    @property
    def ran(self) -> int:
        return self.ended - self.started

    @property
    def label(self) -> str:
        """The node, and which key of it."""
        return f"{self.node}[{','.join(map(str, self.key))}]" if self.key else self.node


def spans_of(report: job_pb2.Report) -> list[Span]:
    """In the order in which they could begin. A mark that was never reached takes the next known time, or the end."""
    spans = [_span(each, report.jct_us) for each in report.activations]
    return sorted(spans, key=lambda span: (span.queued, span.started, span.label))


def end_of(report: job_pb2.Report, spans: Iterable[Span]) -> int:
    """The right edge of a picture of them: some nodes may end after the last result frame."""
    return max([report.jct_us, *(span.ended for span in spans), 1])


def _span(activation: job_pb2.ActivationReport, jct_us: int) -> Span:
    # The scheduler dates each mark by how long ago its worker says it was: neighbours may swap by some microseconds.
    ended = activation.ended_us or max(jct_us, activation.started_us, activation.queued_us)
    first_frame = min(activation.first_frame_us or ended, ended)
    started = min(activation.started_us or first_frame, first_frame)
    return Span(
        node=activation.node,
        worker=activation.worker or "-",
        attempt=activation.attempt,
        key=tuple(activation.key),
        queued=min(activation.queued_us or started, started),
        started=started,
        first_frame=first_frame,
        ended=ended,
        outcome=_outcome(activation),
        features=dict(activation.features),
    )


def _outcome(activation: job_pb2.ActivationReport) -> str:
    """A job ends with its last result: what a node had yet to say by then is in no report."""
    match activation.state:
        case job_pb2.NodeProgress.DONE:
            return ""
        case job_pb2.NodeProgress.STOPPED if not activation.queued_us:
            return "did not run"  # its inputs were closed
        case job_pb2.NodeProgress.FAILED | job_pb2.NodeProgress.LOST | job_pb2.NodeProgress.STOPPED:
            return job_pb2.NodeProgress.State.Name(activation.state).lower()
        case job_pb2.NodeProgress.STATE_UNSPECIFIED:
            return "did not run"
        case _:
            return "end not reported"
