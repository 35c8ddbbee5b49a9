"""From what the scheduler says of a job to its trace."""

import time

from omniflow.trace.arrows import arrows_of, results_of
from omniflow.trace.model import Attempt, JobTrace, PortTraffic, State
from omniflow.v1 import error_pb2, flow_pb2, job_pb2

_OVER = (job_pb2.JobStatus.SUCCEEDED, job_pb2.JobStatus.FAILED, job_pb2.JobStatus.CANCELLED)


def trace_of(status: job_pb2.JobStatus, flow: flow_pb2.Flow | None = None, *, now_ns: int | None = None) -> JobTrace:
    """The trace of a job that runs or has ended. Without its flow it has no arrows and no results.

    `now_ns`: nanoseconds since 1970, for a scheduler that does not say when the job arrived.
    """
    report = status.report
    over = status.state in _OVER
    # To the last result; what runs on after it, for at most the settling time, reaches a little further.
    latest = max([report.jct_us, *(activation.ended_us for activation in report.activations)])
    ended = latest if over else max(latest, status.age_ms * 1000)
    reached = [_attempt(activation, ended, over) for activation in report.activations if activation.queued_us]
    attempts = tuple(sorted(reached, key=lambda attempt: (attempt.queued, attempt.ended, attempt.label)))
    return JobTrace(
        job=status.job,
        flow=status.flow,
        flow_version=status.flow_version.hex(),
        tenant=status.tenant,
        state=job_pb2.JobStatus.State.Name(status.state).lower(),
        over=over,
        arrived_ns=_arrival(status, now_ns),
        ended=ended,
        first_frame=report.first_frame_us or None,
        attempts=attempts,
        arrows=tuple(arrows_of(flow, attempts)) if flow is not None else (),
        results=results_of(flow) if flow is not None else {},
        error=(error_pb2.ErrorCode.Name(status.error.code), status.error.message) if status.HasField("error") else None,
    )


def _arrival(status: job_pb2.JobStatus, now_ns: int | None) -> int:
    if status.report.arrived_unix_us:
        return status.report.arrived_unix_us * 1000
    return (time.time_ns() if now_ns is None else now_ns) - status.age_ms * 1_000_000


def _attempt(activation: job_pb2.ActivationReport, end: int, job_over: bool) -> Attempt:
    state = _state(activation, job_over)
    ended = max(activation.ended_us or end, activation.queued_us, activation.started_us, activation.first_frame_us)
    return Attempt(
        node=activation.node,
        key=tuple(activation.key),
        worker=activation.worker or "unknown",
        number=activation.attempt,
        state=state,
        queued=activation.queued_us,
        started=activation.started_us or None,
        first_frame=activation.first_frame_us or None,
        ended=ended,
        features=dict(activation.features),
        outputs=tuple(_traffic(port) for port in activation.outputs),
        inputs=tuple(_traffic(port) for port in activation.inputs),
    )


def _traffic(port: job_pb2.PortTraffic) -> PortTraffic:
    return PortTraffic(port.port, port.frames, port.bytes, port.first_us, port.last_us, tuple(port.sampled_us))


def _state(activation: job_pb2.ActivationReport, job_over: bool) -> State:
    match activation.state:
        case job_pb2.NodeProgress.DONE:
            return "done"
        case job_pb2.NodeProgress.FAILED:
            return "failed"
        case job_pb2.NodeProgress.LOST:
            return "lost"
        case job_pb2.NodeProgress.STOPPED:
            return "stopped"
    if job_over:
        return "cut off"
    return "running" if activation.started_us else "queued"
