"""The client's one Connect stream: requests and events of all its jobs, in batches both ways, kept through breaks."""

import asyncio
import logging
import time
from typing import Any

import grpc.aio

from omniflow.client.address import Dialer
from omniflow.client.failures import failure_of, is_break, unreachable
from omniflow.client.job import Job
from omniflow.errors import OmniFlowError, Unavailable, from_proto
from omniflow.v1.job_pb2 import (
    CancelRequest,
    ClientBatch,
    ClientMessage,
    EventBatch,
    JobEvent,
    SubmitRequest,
    WatchRequest,
)

log = logging.getLogger(__name__)

CONNECT = "/omniflow.v1.JobService/Connect"
# What one message holds at most, so that no job waits long behind others' inputs.
BATCH_BYTES = 1024 * 1024
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class _Entry:
    """A job on the stream. `request` is what to send again while nobody has answered it."""

    __slots__ = ("abandoned", "answered", "job", "progress", "request")

    def __init__(self, job: Job, request: ClientMessage, progress: bool) -> None:
        self.job = job
        self.request: ClientMessage | None = request
        self.progress = progress
        self.abandoned = False
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Exchange:
    """Owns the stream and the jobs on it. `run` is its life; the client awaits it."""

    def __init__(self, dialer: Dialer, give_up_after: float) -> None:
        self._dialer = dialer
        self._give_up_after = give_up_after
        self._entries: dict[int, _Entry] = {}
        self._outgoing: list[ClientMessage] = []
        self._wanted = asyncio.Event()
        self._last_tag = 0
        self._ended: OmniFlowError | None = None

    async def submit(self, job: Job, request: SubmitRequest) -> None:
        """Returns once the job is accepted. Raises what it was refused with."""
        await self._start(job, ClientMessage(submit=request), request.progress)

    async def watch(self, job: Job, request: WatchRequest) -> None:
        """Puts an accepted job on the stream; returns at its first event. Raises `UnknownJob`."""
        await self._start(job, ClientMessage(watch=request), request.progress)

    async def _start(self, job: Job, message: ClientMessage, progress: bool) -> None:
        if self._ended is not None:
            raise self._ended
        self._last_tag += 1
        message.tag = tag = self._last_tag
        entry = self._entries[tag] = _Entry(job, message, progress)
        self._outgoing.append(message)
        self._wanted.set()
        try:
            await entry.answered
        except asyncio.CancelledError:
            entry.abandoned = True
            raise

    async def run(self) -> None:
        """Connects when there is something to say; after a break, resumes what is under way."""
        try:
            while True:
                await self._wanted.wait()
                await self._serve(await self._open())
        finally:
            self.fail(unreachable(self._dialer.words, "waiting for jobs", "the client was closed"))

    async def _open(self) -> Call | None:
        """A new stream with everything under way on it again; None when the scheduler stayed away too long."""
        give_up_at = time.monotonic() + self._give_up_after
        pause = FIRST_PAUSE
        while True:
            try:
                channel = await self._dialer.connect()
            except Unavailable as error:
                if time.monotonic() >= give_up_at:
                    self.fail(error)
                    return None
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._outgoing = [self._again(tag, entry) for tag, entry in self._entries.items()]
                self._wanted.set()
                raw: Any = channel
                call: Call = raw.stream_stream(CONNECT)()
                return call

    def _again(self, tag: int, entry: _Entry) -> ClientMessage:
        if entry.request is not None:
            return entry.request
        watch = WatchRequest(job=entry.job.id, next_seq=entry.job.next_seq(), progress=entry.progress)
        return ClientMessage(tag=tag, watch=watch)

    async def _serve(self, call: Call | None) -> None:
        if call is None:
            return
        reader = asyncio.create_task(self._read(call), name="omniflow events")
        writer = asyncio.create_task(self._write(call), name="omniflow requests")
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            call.cancel()
            reader.cancel()
            writer.cancel()
            ends = await asyncio.gather(reader, writer, return_exceptions=True)
        self._broken([end for end in ends if isinstance(end, Exception)])

    def _broken(self, errors: list[Exception]) -> None:
        for error in errors:
            if isinstance(error, grpc.aio.AioRpcError) and not is_break(error):
                self.fail(failure_of(error, self._dialer.words, "exchanging jobs"))
                return
            if not isinstance(error, grpc.aio.AioRpcError | asyncio.InvalidStateError):
                raise error
        log.info("the stream to %s broke: %s", self._dialer.words, errors or "it was ended")
        if self._entries:
            self._wanted.set()
        else:
            self._wanted.clear()

    async def _write(self, call: Call) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._outgoing:
                await call.write(self._next_batch())

    def _next_batch(self) -> bytes:
        outgoing, size, count = self._outgoing, 0, 0
        for message in outgoing:
            size += message.ByteSize()
            if count and size > BATCH_BYTES:
                break
            count += 1
        self._outgoing = outgoing[count:]
        return ClientBatch(messages=outgoing[:count]).SerializeToString()

    async def _read(self, call: Call) -> None:
        while True:
            batch: Any = await call.read()
            if not isinstance(batch, bytes):
                return
            for event in EventBatch.FromString(batch).events:
                self._take(event)

    def _take(self, event: JobEvent) -> None:
        entry = self._entries.get(event.tag)
        if entry is None:
            return
        kind = event.WhichOneof("event")
        if kind == "refused":
            self._refused(event, entry)
            return
        if kind == "accepted":
            entry.job.accept(event.job, event.accepted)
        elif kind is not None:
            entry.job.take(event, kind)
        if entry.request is not None:
            entry.request = None
            if not entry.answered.done():
                entry.answered.set_result(None)
            if entry.abandoned:
                self._cancel(event)
        if kind == "ended":
            del self._entries[event.tag]

    def _cancel(self, event: JobEvent) -> None:
        """Nobody knows of this job: whoever submitted it gave up before it was accepted."""
        cancel = CancelRequest(job=event.job, reason="its submission was given up")
        self._outgoing.append(ClientMessage(tag=event.tag, cancel=cancel))
        self._wanted.set()

    def _refused(self, event: JobEvent, entry: _Entry) -> None:
        del self._entries[event.tag]
        error = from_proto(event.refused)
        if entry.answered.done():
            entry.job.fail(error)
        else:
            entry.answered.set_exception(error)

    def fail(self, error: OmniFlowError) -> None:
        """Ends every job that waits."""
        self._outgoing.clear()
        self._wanted.clear()
        entries, self._entries = self._entries, {}
        for entry in entries.values():
            if entry.answered.done():
                entry.job.fail(error)
            else:
                entry.answered.set_exception(error)

    def end(self) -> None:
        """Takes nothing new."""
        self._ended = Unavailable("the client is closed", cure="make another Client")
