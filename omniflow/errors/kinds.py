"""One class per error code, under a branch per answer to "what now?"."""
# ruff: noqa: N818  named after what happened, not "…Error"

from __future__ import annotations

from collections.abc import Sequence

from omniflow.errors.base import OmniFlowError
from omniflow.errors.problem import Problem
from omniflow.v1 import error_pb2


class RequestError(OmniFlowError):
    """The request is wrong: sent again unchanged, it fails again."""


class InvalidArgument(RequestError):
    """`field` names the input, parameter or key that is wrong."""

    code = error_pb2.INVALID_ARGUMENT


class TooLarge(InvalidArgument):
    """An input or a frame is over a limit."""

    code = error_pb2.TOO_LARGE


class UnknownFlow(RequestError):
    code = error_pb2.UNKNOWN_FLOW


class UnknownRole(RequestError):
    """No worker of the cluster ever registered the role."""

    code = error_pb2.UNKNOWN_ROLE


class UnknownJob(RequestError):
    code = error_pb2.UNKNOWN_JOB


class BadFlow(RequestError):
    """The graph does not validate. `problems` holds each reason with its line, where they are known."""

    code = error_pb2.BAD_FLOW

    def __init__(
        self,
        message: str,
        *,
        problems: Sequence[Problem] = (),
        field: str = "",
        node: str = "",
        worker: str = "",
        cause: str = "",
        cure: str = "",
    ) -> None:
        super().__init__(message, field=field, node=node, worker=worker, cause=cause, cure=cure)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, flow: str, problems: Sequence[Problem]) -> BadFlow:
        """The error of a flow with these problems (at least one)."""
        text = "\n\n".join(problem.render() for problem in problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        return cls(f"flow `{flow}` has {count}\n\n{text}", problems=problems, field=flow)

    def _place(self) -> str:
        return "" if self.problems else super()._place()


class NotNow(OmniFlowError):
    """The cluster cannot take it now. `retry_after` is a hint in seconds; 0.0 when there is none."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float = 0.0,
        field: str = "",
        node: str = "",
        worker: str = "",
        cause: str = "",
        cure: str = "",
    ) -> None:
        super().__init__(message, field=field, node=node, worker=worker, cause=cause, cure=cure)
        self.retry_after = retry_after

    def to_proto(self) -> error_pb2.Error:
        error = super().to_proto()
        error.retry_after_ms = round(self.retry_after * 1000)
        return error

    @classmethod
    def _from_proto(cls, error: error_pb2.Error) -> OmniFlowError:
        return cls(
            error.message,
            retry_after=error.retry_after_ms / 1000,
            field=error.field,
            node=error.node,
            worker=error.worker,
            cause=error.cause,
            cure=error.cure,
        )


class ResourceExhausted(NotNow):
    code = error_pb2.RESOURCE_EXHAUSTED


class NoWorker(NotNow):
    """A role that is known had no living worker within the deadline."""

    code = error_pb2.NO_WORKER


class Unavailable(NotNow):
    code = error_pb2.UNAVAILABLE


class JobError(OmniFlowError):
    """The job was accepted and ended without its result."""


class Cancelled(JobError):
    code = error_pb2.CANCELLED


class DeadlineExceeded(JobError):
    code = error_pb2.DEADLINE_EXCEEDED


class RoleFailed(JobError):
    """The role raised; `node`, `worker` and `cause` say where and what."""

    code = error_pb2.ROLE_FAILED


class WorkerLost(JobError):
    """The worker died and every attempt is used up."""

    code = error_pb2.WORKER_LOST


class NotReplayable(JobError):
    """A new attempt contradicted frames that had been delivered."""

    code = error_pb2.NOT_REPLAYABLE


class FlowStalled(JobError):
    code = error_pb2.FLOW_STALLED


class BadRoute(JobError):
    code = error_pb2.BAD_ROUTE


class LoopLimit(JobError):
    code = error_pb2.LOOP_LIMIT


class StalePage(JobError):
    code = error_pb2.STALE_PAGE


class BadOutput(JobError):
    """A role yielded what its method does not declare."""

    code = error_pb2.BAD_OUTPUT


class SessionError(OmniFlowError):
    """The session, as it stands, does not take this turn."""


class SessionBusy(SessionError):
    code = error_pb2.SESSION_BUSY


class TurnMismatch(SessionError):
    code = error_pb2.TURN_MISMATCH


class SessionExpired(SessionError):
    code = error_pb2.SESSION_EXPIRED


class InternalError(OmniFlowError):
    """A defect of Omni-Flow itself."""

    code = error_pb2.INTERNAL
