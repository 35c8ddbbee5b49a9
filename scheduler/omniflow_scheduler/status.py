"""Errors as gRPC tells them: one table from code to status, and the whole Error in the trailing metadata."""

from typing import NoReturn

import grpc
import grpc.aio

from omniflow.errors import OmniFlowError
from omniflow.v1 import error_pb2 as e

ERROR_METADATA = "omniflow-error-bin"
# Clients limit the size of all metadata (8 KiB by default); what is cut here is cut in words only.
LONGEST_TEXT = 1_500

STATUS_OF: dict[int, grpc.StatusCode] = {
    e.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    e.UNKNOWN_FLOW: grpc.StatusCode.NOT_FOUND,
    e.UNKNOWN_ROLE: grpc.StatusCode.NOT_FOUND,
    e.UNKNOWN_JOB: grpc.StatusCode.NOT_FOUND,
    e.BAD_FLOW: grpc.StatusCode.INVALID_ARGUMENT,
    e.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    e.RESOURCE_EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    e.NO_WORKER: grpc.StatusCode.UNAVAILABLE,
    e.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    e.CANCELLED: grpc.StatusCode.CANCELLED,
    e.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    e.ROLE_FAILED: grpc.StatusCode.ABORTED,
    e.WORKER_LOST: grpc.StatusCode.ABORTED,
    e.NOT_REPLAYABLE: grpc.StatusCode.ABORTED,
    e.FLOW_STALLED: grpc.StatusCode.ABORTED,
    e.BAD_ROUTE: grpc.StatusCode.ABORTED,
    e.LOOP_LIMIT: grpc.StatusCode.ABORTED,
    e.STALE_PAGE: grpc.StatusCode.ABORTED,
    e.BAD_OUTPUT: grpc.StatusCode.ABORTED,
    e.SESSION_BUSY: grpc.StatusCode.FAILED_PRECONDITION,
    e.TURN_MISMATCH: grpc.StatusCode.FAILED_PRECONDITION,
    e.SESSION_EXPIRED: grpc.StatusCode.FAILED_PRECONDITION,
    e.INTERNAL: grpc.StatusCode.INTERNAL,
}


async def refuse(context: "grpc.aio.ServicerContext[object, object]", error: e.Error) -> NoReturn:
    """Ends the call with the error's status."""
    short = e.Error()
    short.CopyFrom(error)
    short.message, short.cause = _cut(error.message), _cut(error.cause)
    status = STATUS_OF.get(error.code, grpc.StatusCode.UNKNOWN)
    words = f"{short.message}; {short.cure}" if short.cure else short.message
    await context.abort(status, words, ((ERROR_METADATA, short.SerializeToString()),))
    raise AssertionError("abort raises")


async def refuse_with(context: "grpc.aio.ServicerContext[object, object]", error: OmniFlowError) -> NoReturn:
    """`refuse` with an exception of the tree."""
    await refuse(context, error.to_proto())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
