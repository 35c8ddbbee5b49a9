"""From a gRPC status to the one exception tree."""

import difflib
from collections.abc import Iterable
from typing import Any

import grpc
import grpc.aio

from omniflow.errors import (
    InternalError,
    InvalidArgument,
    OmniFlowError,
    TooLarge,
    Unavailable,
    UnknownFlow,
    from_proto,
)
from omniflow.v1.error_pb2 import Error

ERROR_METADATA = "omniflow-error-bin"


def failure_of(error: grpc.aio.AioRpcError, address: str, doing: str) -> OmniFlowError:
    """The Error that the scheduler sent along, or what the status says without one."""
    sent = sent_along(error)
    if sent is not None:
        return from_proto(sent)
    details = error.details() or "no details"
    match error.code():
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in details:
            return TooLarge(
                f"{doing}: the message is over the scheduler's limit",
                field="inputs",
                cause=details,
                cure="send less, or raise scheduler.limits.max_input_bytes in the cluster file",
            )
        case grpc.StatusCode.UNIMPLEMENTED | grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidArgument(
                f"{doing}: what answers at {address} does not know this request",
                cause=details,
                cure="check the address, and that client and scheduler have the same version",
            )
        case grpc.StatusCode.INTERNAL | grpc.StatusCode.UNKNOWN:
            return InternalError(f"{doing}: the scheduler failed", cause=details, cure="see the scheduler's log")
        case _:
            return unreachable(address, doing, f"{error.code().name}, {details}")


def has_error(error: grpc.aio.AioRpcError) -> bool:
    """Whether the scheduler itself refused, rather than the connection."""
    return sent_along(error) is not None


def sent_along(error: grpc.aio.AioRpcError) -> Error | None:
    """The Error in the call's trailing metadata."""
    metadata: Any = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == ERROR_METADATA and isinstance(value, bytes):
            return Error.FromString(value)
    return None


def unreachable(address: str, doing: str, cause: str) -> Unavailable:
    """The scheduler does not answer."""
    return Unavailable(
        f"{doing}: the scheduler does not answer at {address}",
        cause=cause,
        cure="check that the cluster is up (`omniflow status`) and that the address is right",
        retry_after=1.0,
    )


def unknown_flow(name: str, registered: Iterable[str], *, version: bytes = b"") -> UnknownFlow:
    """Nothing is registered under that name; or not `version` of it, where the name itself is known."""
    names = sorted(set(registered))
    if version and name in names:
        return UnknownFlow(
            f"flow {name!r} is registered, but not in version {version.hex()[:12]}",
            field="flow_version",
            cure="register that version again, or leave the version out for the newest one",
        )
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UnknownFlow(
        f"no flow is called {name!r}; registered are: {', '.join(names) or 'none'}",
        field="flow",
        cure=f"{hint}correct the name, or list the flow's file under `flows` in the cluster file",
    )


def is_break(error: grpc.aio.AioRpcError) -> bool:
    """Whether the same may succeed over a new connection."""
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return "larger than max" not in (error.details() or "")
    return error.code() not in {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT}
