"""A gRPC server that a test drives by hand: what the client sends is read from it, what it answers is said to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from omniflow.v1 import cluster_pb2, error_pb2, job_pb2
from omniflow.v1.flow_pb2 import Flow, Port
from omniflow.v1.job_pb2 import ClientMessage, JobEvent
from omniflow.v1.value_pb2 import KIND_TEXT, Type

Context = grpc.aio.ServicerContext[Any, Any]


def text_port(name: str, *, stream: bool = False) -> Port:
    return Port(name=name, type=Type(kind=KIND_TEXT, stream=stream))


ECHO = Flow(
    name="echo",
    version=b"\x01",
    inputs=[text_port("text"), text_port("parts", stream=True)],
    results=[text_port("whole"), text_port("pieces", stream=True)],
)


@dataclass
class Stream:
    """One Connect stream as the server sees it."""

    received: asyncio.Queue[ClientMessage] = field(default_factory=asyncio.Queue)
    outgoing: asyncio.Queue[JobEvent | None] = field(default_factory=asyncio.Queue)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> ClientMessage:
        async with asyncio.timeout(10):
            return await self.received.get()

    def say(self, *events: JobEvent) -> None:
        for event in events:
            self.outgoing.put_nowait(event)

    def break_off(self) -> None:
        self.outgoing.put_nowait(None)


class ScriptedScheduler:
    """The methods that the tests need; others answer UNIMPLEMENTED."""

    def __init__(self) -> None:
        self.address = ""
        self.echo = Flow()
        self.echo.CopyFrom(ECHO)
        self.streams: asyncio.Queue[Stream] = asyncio.Queue()
        self.submits: asyncio.Queue[job_pb2.SubmitRequest] = asyncio.Queue()

    async def stream(self) -> Stream:
        """The next stream that a client opens."""
        async with asyncio.timeout(10):
            return await self.streams.get()

    async def connect(self, requests: AsyncIterator[job_pb2.ClientBatch], context: Context) -> None:
        stream = Stream()
        self.streams.put_nowait(stream)
        reader = asyncio.create_task(self._read(stream, requests))
        try:
            while (event := await stream.outgoing.get()) is not None:
                await context.write(job_pb2.EventBatch(events=[event]))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream broke")
        finally:
            reader.cancel()
            stream.ended.set()

    async def _read(self, stream: Stream, requests: AsyncIterator[job_pb2.ClientBatch]) -> None:
        async for batch in requests:
            for message in batch.messages:
                if message.WhichOneof("message") == "leave":
                    stream.break_off()
                stream.received.put_nowait(message)

    async def submit(self, request: job_pb2.SubmitRequest, context: Context) -> AsyncIterator[JobEvent]:
        self.submits.put_nowait(request)
        for event in echo_events(0, "large", request):
            yield event

    async def get(self, request: job_pb2.GetRequest, context: Context) -> job_pb2.JobStatus:
        error = error_pb2.Error(code=error_pb2.UNKNOWN_JOB, message=f"no job {request.job}", field="job")
        await context.abort(
            grpc.StatusCode.NOT_FOUND, error.message, (("omniflow-error-bin", error.SerializeToString()),)
        )

    async def list_flows(
        self, request: cluster_pb2.ListFlowsRequest, context: Context
    ) -> cluster_pb2.ListFlowsResponse:
        return cluster_pb2.ListFlowsResponse(flows=[self.echo] if request.name in {"", "echo"} else [])


def accepted(tag: int, job: str) -> JobEvent:
    names = [port.name for port in ECHO.results]
    return JobEvent(tag=tag, job=job, accepted=job_pb2.Accepted(flow="echo", flow_version=ECHO.version, results=names))


def frame(tag: int, job: str, port: int, seq: int, payload: bytes) -> JobEvent:
    return JobEvent(tag=tag, job=job, frame=job_pb2.ResultFrame(port=port, seq=seq, payload=payload))


def ended(tag: int, job: str, error: error_pb2.Error | None = None) -> JobEvent:
    return JobEvent(tag=tag, job=job, ended=job_pb2.JobEnd(error=error, report=job_pb2.Report(jct_us=1000)))


def echo_events(tag: int, job: str, request: job_pb2.SubmitRequest) -> list[JobEvent]:
    """A job that answers `text` as `whole`, and `parts` as `pieces`."""
    ports = {"text": 0, "parts": 1}
    frames = [
        frame(tag, job, ports[each.name], seq, payload)
        for each in request.inputs
        for seq, payload in enumerate(each.frames)
    ]
    return [accepted(tag, job), *frames, ended(tag, job)]


def job_handlers(scheduler: ScriptedScheduler) -> Any:
    return grpc.method_handlers_generic_handler(
        "omniflow.v1.JobService",
        {
            "Connect": grpc.stream_stream_rpc_method_handler(
                scheduler.connect, job_pb2.ClientBatch.FromString, job_pb2.EventBatch.SerializeToString
            ),
            "Submit": grpc.unary_stream_rpc_method_handler(
                scheduler.submit, job_pb2.SubmitRequest.FromString, JobEvent.SerializeToString
            ),
            "Get": grpc.unary_unary_rpc_method_handler(
                scheduler.get, job_pb2.GetRequest.FromString, job_pb2.JobStatus.SerializeToString
            ),
        },
    )


def cluster_handlers(scheduler: ScriptedScheduler) -> Any:
    return grpc.method_handlers_generic_handler(
        "omniflow.v1.ClusterService",
        {
            "ListFlows": grpc.unary_unary_rpc_method_handler(
                scheduler.list_flows,
                cluster_pb2.ListFlowsRequest.FromString,
                cluster_pb2.ListFlowsResponse.SerializeToString,
            )
        },
    )


@asynccontextmanager
async def scripted_scheduler(listen: str = "127.0.0.1:0") -> AsyncIterator[ScriptedScheduler]:
    scheduler = ScriptedScheduler()
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((job_handlers(scheduler), cluster_handlers(scheduler)))
    scheduler.address = f"127.0.0.1:{server.add_insecure_port(listen)}"
    await server.start()
    try:
        yield scheduler
    finally:
        await server.stop(0)
