"""The client's one Connect stream: requests and events of all its jobs, in batches both ways, kept through breaks."""

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import partial

import grpc.aio

from omniflow.client.address import Dialer
from omniflow.client.call import Call
from omniflow.client.failures import failure_of, is_break, unreachable
from omniflow.client.intake import Allowance
from omniflow.client.job import Job
from omniflow.client.window import DEFAULT, Extent
from omniflow.errors import OmniFlowError, Unavailable, from_proto
from omniflow.v1.job_pb2 import (
    MARK_NONE,
    AckRequest,
    CancelRequest,
    ClientBatch,
    ClientMessage,
    EventBatch,
    JobEvent,
    Leave,
    Room,
    SubmitRequest,
    WatchRequest,
    Window,
)

log = logging.getLogger(__name__)

CONNECT = "/omniflow.v1.JobService/Connect"
# What one message holds at most, so that no job waits long behind others' inputs.
BATCH_BYTES = 1024 * 1024
# A job's results are acknowledged by so many bytes, so that the scheduler need not keep them all.
ACK_BYTES = 1024 * 1024
# How long a goodbye may take.
FAREWELL_S = 1.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class _Entry:
    """A job on the stream. `request`, a ClientBatch of one, is what to send again while nobody has answered it."""

    __slots__ = ("abandoned", "answered", "detach", "job", "last", "progress", "request", "shared", "unacknowledged")

    def __init__(
        self, job: Job, request: bytes, answered: asyncio.Future[None], *, progress: bool, shared: bool, detach: bool
    ) -> None:
        self.job = job
        self.request: bytes | None = request
        self.answered = answered
        self.progress = progress
        self.shared = shared
        self.detach = detach
        self.last: dict[int, int] = {}
        self.unacknowledged = 0
        self.abandoned = False


class Exchange:
    """Owns the stream and the jobs on it. `run` is its life; the client awaits it."""

    def __init__(self, dialer: Dialer, give_up_after: float, window: Extent = DEFAULT) -> None:
        self._dialer = dialer
        self._window = Window(frames=window.frames, bytes=window.bytes)
        self._give_up_after = give_up_after
        self._entries: dict[int, _Entry] = {}
        # ClientBatches of one message each: such batches, one after the other, are a batch.
        self._outgoing: list[bytes] = []
        self._wanted = asyncio.Event()
        self._last_tag = 0
        self._ended: OmniFlowError | None = None
        self._connected = False
        self._leaving = False
        self._left = asyncio.Event()

    async def submit(self, job: Job, request: SubmitRequest, *, shared: bool) -> None:
        """Returns once the job is accepted. Raises what it was refused with.

        `shared`: others may want its results too, so that all are kept for as long as the scheduler does.
        """
        self._last_tag += 1
        message = _alone(ClientMessage(tag=self._last_tag, submit=request, window=self._window))
        await self._start(job, message, progress=request.progress, shared=shared, detach=request.detach)

    async def watch(self, job: Job, request: WatchRequest, *, detach: bool = True) -> None:
        """Puts an accepted job on the stream; returns at its first event. Raises `UnknownJob`.

        `detach`: it goes on when this client leaves.
        """
        self._last_tag += 1
        message = self._watching(self._last_tag, job, request)
        await self._start(job, message, progress=request.progress, shared=True, detach=detach)

    async def _start(self, job: Job, request: bytes, *, progress: bool, shared: bool, detach: bool) -> None:
        if self._ended is not None:
            raise self._ended
        answered = job.loop.create_future()
        entry = _Entry(job, request, answered, progress=progress, shared=shared, detach=detach)
        self._entries[self._last_tag] = entry
        job.intake.tell = partial(self._tell_room, self._last_tag)
        self._outgoing.append(request)
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
                await self._dialer.connect()
            except Unavailable as error:
                if time.monotonic() >= give_up_at:
                    self.fail(error)
                    return None
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._outgoing = [self._again(tag, entry) for tag, entry in self._entries.items()]
                self._wanted.set()
                return Call(self._dialer.address, CONNECT, connect_timeout=self._give_up_after)

    def _again(self, tag: int, entry: _Entry) -> bytes:
        job = entry.job
        if entry.request is not None:
            # What was said of its room went to the stream that broke.
            return entry.request + _rooms(tag, job, job.intake.allowances())
        watch = WatchRequest(job=job.id, next_seq=job.next_seq(), progress=entry.progress)
        return self._watching(tag, job, watch)

    def _watching(self, tag: int, job: Job, request: WatchRequest) -> bytes:
        """A batch that puts it on the stream, with what may come of it."""
        least, more = job.intake.resume()
        window = Window(frames=least.frames, bytes=least.bytes)
        return _alone(ClientMessage(tag=tag, watch=request, window=window)) + _rooms(tag, job, more)

    def _tell_room(self, tag: int, port: int) -> None:
        """Something of a result was read, so that more of it may come."""
        entry = self._entries.get(tag)
        if entry is not None:
            self._outgoing.append(_rooms(tag, entry.job, [entry.job.intake.allowance(port)]))
            self._wanted.set()

    async def _serve(self, call: Call | None) -> None:
        if call is None:
            return
        self._connected = True
        reader = asyncio.create_task(self._read(call), name="omniflow events")
        writer = asyncio.create_task(self._write(call), name="omniflow requests")
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connected = False
            self._left.set()
            call.close()
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
                call.write(self._next_batch())

    def _next_batch(self) -> bytes:
        outgoing, size, count = self._outgoing, 0, 0
        for message in outgoing:
            size += len(message)
            if count and size > BATCH_BYTES:
                break
            count += 1
        self._outgoing = outgoing[count:]
        return b"".join(outgoing[:count])

    async def _read(self, call: Call) -> None:
        while True:
            batches = await call.read()
            if not batches:
                return
            for batch in batches:
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
            if kind == "frame" and not entry.shared:
                self._acknowledge(event, entry)
        if entry.request is not None:
            entry.request = None
            if not entry.answered.done():
                entry.answered.set_result(None)
            if entry.abandoned:
                self._cancel(event)
        if kind == "ended":
            del self._entries[event.tag]
            self._look_left()

    def _acknowledge(self, event: JobEvent, entry: _Entry) -> None:
        """What has come need not be sent again, even after a break."""
        frame = event.frame
        entry.unacknowledged += len(frame.payload)
        if frame.mark == MARK_NONE:
            entry.last[frame.port] = frame.seq
        if entry.unacknowledged < ACK_BYTES:
            return
        entry.unacknowledged = 0
        for port, seq in entry.last.items():
            ack = AckRequest(job=event.job, port=port, seq=seq)
            self._outgoing.append(_alone(ClientMessage(tag=event.tag, ack=ack)))
        self._wanted.set()

    def _cancel(self, event: JobEvent) -> None:
        """Nobody knows of this job: whoever submitted it gave up before it was accepted."""
        cancel = CancelRequest(job=event.job, reason="its submission was given up")
        self._outgoing.append(_alone(ClientMessage(tag=event.tag, cancel=cancel)))
        self._wanted.set()

    def _refused(self, event: JobEvent, entry: _Entry) -> None:
        del self._entries[event.tag]
        self._look_left()
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

    async def leave(self) -> None:
        """Takes nothing new; cancels the jobs that are not detached, and waits a moment for the answer.

        Without a word the scheduler would keep them going for a while: it cannot tell a client that leaves from one
        whose connection broke.
        """
        self._ended = Unavailable("the client is closed", cure="make another Client")
        if not self._connected or all(entry.detach for entry in self._entries.values()):
            return
        self._leaving = True
        self._outgoing.append(_alone(ClientMessage(leave=Leave())))
        self._wanted.set()
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._left.wait()
        except TimeoutError:
            log.info("%s did not answer a goodbye", self._dialer.words)

    def _look_left(self) -> None:
        if self._leaving and all(entry.detach for entry in self._entries.values()):
            self._left.set()


def _rooms(tag: int, job: Job, allowances: Iterable[Allowance]) -> bytes:
    """A batch that says how far results may come; empty when nothing is to be said."""
    rooms = (
        Room(
            job=job.id,
            port=allowance.port,
            frames=allowance.extent.frames,
            bytes=allowance.extent.bytes,
            unread=allowance.unread,
        )
        for allowance in allowances
    )
    return ClientBatch(messages=[ClientMessage(tag=tag, room=room) for room in rooms]).SerializeToString()


def _alone(message: ClientMessage) -> bytes:
    return ClientBatch(messages=(message,)).SerializeToString()
