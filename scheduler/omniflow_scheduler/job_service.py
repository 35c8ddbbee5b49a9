"""`JobService` over the hub, but for `Connect`, which the core serves. Requests and events pass as bytes."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from omniflow.errors import InvalidArgument, Unavailable, UnknownJob
from omniflow.v1 import error_pb2, job_pb2
from omniflow_core import CoreError, Hub
from omniflow_scheduler.outbox import Outbox
from omniflow_scheduler.status import refuse, refuse_with
from omniflow_scheduler.wire import (
    EVENT_ENDED,
    EVENT_REFUSED,
    ack_batch,
    cancel_batch,
    event_part,
    split_events,
    submit_batch,
    watch_batch,
)

SERVICE = "omniflow.v1.JobService"
CONNECT = f"/{SERVICE}/Connect"
_ENDED = {job_pb2.JobStatus.SUCCEEDED, job_pb2.JobStatus.FAILED, job_pb2.JobStatus.CANCELLED}

Context = grpc.aio.ServicerContext[Any, Any]
M = TypeVar("M", bound=Message)


class JobService:
    """One instance a process. `handlers()` is what the server is given."""

    def __init__(self, hub: Hub, outbox: Outbox) -> None:
        self._hub = hub
        self._outbox = outbox

    def handlers(self) -> "grpc.GenericRpcHandler[Any, Any]":
        """Without serializers: grpc hands bytes over as they came."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Submit": grpc.unary_stream_rpc_method_handler(self.submit),
                "Watch": grpc.unary_stream_rpc_method_handler(self.watch),
                "Get": grpc.unary_unary_rpc_method_handler(self.get),
                "List": grpc.unary_unary_rpc_method_handler(self.list),
                "Ack": grpc.unary_unary_rpc_method_handler(self.ack),
                "Cancel": grpc.unary_unary_rpc_method_handler(self.cancel),
            },
        )

    async def submit(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        async for event in self._one_job(submit_batch(request), context):
            yield event

    async def watch(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        async for event in self._one_job(watch_batch(request), context):
            yield event

    async def get(self, request: bytes, context: Context) -> bytes:
        return await self._status((await _parsed(job_pb2.GetRequest, request, context)).job, context)

    async def list(self, request: bytes, context: Context) -> bytes:
        try:
            return self._hub.list_jobs(request)
        except CoreError as error:
            await refuse_with(context, _unreadable(str(error)))

    async def ack(self, request: bytes, context: Context) -> bytes:
        await self._status((await _parsed(job_pb2.AckRequest, request, context)).job, context)
        await self._tell(ack_batch(request), context)
        return job_pb2.AckResponse().SerializeToString()

    async def cancel(self, request: bytes, context: Context) -> bytes:
        job = (await _parsed(job_pb2.CancelRequest, request, context)).job
        before = job_pb2.JobStatus.FromString(await self._status(job, context))
        running = before.state not in _ENDED
        if running:
            await self._tell(cancel_batch(request), context)
        return job_pb2.CancelResponse(running=running).SerializeToString()

    async def _one_job(self, batch: bytes, context: Context) -> AsyncIterator[bytes]:
        """A job's events up to its end; a refusal becomes the call's status."""
        client = self._outbox.open()
        try:
            await self._send(client, batch, context)
            async for answer in self._outbox.batches(client):
                for event in split_events(answer):
                    refused = event_part(event, EVENT_REFUSED)
                    if refused is not None:
                        await refuse(context, error_pb2.Error.FromString(refused))
                    yield event
                    if event_part(event, EVENT_ENDED) is not None:
                        return
            await refuse_with(context, _stopping())
        finally:
            self._outbox.close(client)

    async def _tell(self, batch: bytes, context: Context) -> None:
        """Something that the hub does not answer."""
        client = self._outbox.open()
        try:
            await self._send(client, batch, context)
        finally:
            self._outbox.close(client)

    async def _send(self, client: int, batch: bytes, context: Context) -> None:
        try:
            self._hub.send(client, batch)
        except CoreError as error:
            await refuse_with(context, _unreadable(str(error)))

    async def _status(self, job: str, context: Context) -> bytes:
        status = self._hub.job_status(job)
        if status is None:
            await refuse_with(context, _unknown(job))
        return status


async def _parsed(message: type[M], request: bytes, context: Context) -> M:
    try:
        return message.FromString(request)
    except DecodeError as error:
        await refuse_with(context, _unreadable(str(error)))


def _unknown(job: str) -> UnknownJob:
    return UnknownJob(
        f"no job {job!r} is known here",
        field="job",
        cure="it never was, or it ended longer ago than results are kept (scheduler.limits.result_ttl_s in the cluster"
        " file); see `omniflow jobs`",
    )


def _stopping() -> Unavailable:
    return Unavailable("the scheduler is stopping", cure="watch the job at the next one", retry_after=1.0)


def _unreadable(cause: str) -> InvalidArgument:
    return InvalidArgument(
        "the request is not what omniflow.v1 declares", cause=cause, cure="use a client of the same version"
    )
