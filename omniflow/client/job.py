"""One job, as its client sees it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from omniflow.client.intake import Intake
from omniflow.client.signature import Signature
from omniflow.client.window import DEFAULT, Extent
from omniflow.errors import OmniFlowError, UnknownFlow, from_proto
from omniflow.types import ValueType, decode
from omniflow.v1.job_pb2 import MARK_NONE, Accepted, JobEnd, JobEvent, NodeProgress, Report, ResultFrame


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a result. `port`: the result's name; `seq`: its number on that port, from 0."""

    port: str
    seq: int
    value: Any


class JobControl(Protocol):
    """What a job asks of its client."""

    async def cancel_job(self, job: str, reason: str) -> bool: ...
    async def signature_of(self, flow: str, version: bytes) -> Signature: ...


class Job:
    """A job that was accepted. Iterate it for its frames as they come, or `await job.result()` for all of them.

    A frame is handed out once: `result()` holds those that were not iterated over. Used as a context manager, it
    cancels the job when its block raises.

    No more than a window of each result waits here to be read, and what is left of it at the job's end. Whoever
    iterates slowly slows whoever makes the result. While nobody iterates, nor waits for `result()`, nobody is slowed.
    """

    def __init__(self, control: JobControl, signature: Signature | None, window: Extent = DEFAULT) -> None:
        self.id = ""
        self.flow = ""
        self.flow_version = b""
        self.existed = False
        """Whether the idempotency key had been seen: then this is the job of that time."""
        self.loop = asyncio.get_running_loop()
        self.intake = Intake(window)
        """For whoever brings its results."""
        self._control = control
        self._signature = signature
        self._ports: tuple[str, ...] = ()
        self._frames: deque[ResultFrame] = deque()
        self._steps: deque[NodeProgress] = deque()
        self._next_seq: dict[int, int] = {}
        self._end: JobEnd | None = None
        self._failure: OmniFlowError | None = None
        self._done = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def done(self) -> bool:
        """Whether it has ended and all of it is here; frames may still wait to be read."""
        return self._done

    @property
    def report(self) -> Report | None:
        """Where the time went; None until the job has ended."""
        return self._end.report if self._end is not None else None

    @property
    def error(self) -> OmniFlowError | None:
        """Why it ended without its result; None when it has it, or runs."""
        return self._failure

    async def __aiter__(self) -> AsyncIterator[Frame]:
        """Frames as they come, of all results. Raises the job's error at its end."""
        with self.intake.reading():
            await self._know_ports()
            while True:
                while self._frames:
                    yield self._decoded(self._next_frame())
                if self._done:
                    self._raise_failure()
                    return
                await self._wait()

    async def result(self) -> dict[str, Any]:
        """Waits for the end. By result: its value (None when it was closed), or the list of a stream's values.

        Raises the job's error.
        """
        with self.intake.reading(gathers=True):
            while not self._done:
                await self._wait()
        self._raise_failure()
        await self._know_ports()
        frames: dict[str, list[Any]] = {port: [] for port in self._ports}
        while self._frames:
            frame = self._decoded(self._next_frame())
            frames[frame.port].append(frame.value)
        return {port: self._collected(index, frames[port]) for index, port in enumerate(self._ports)}

    async def progress(self) -> AsyncIterator[NodeProgress]:
        """What its nodes do, as it happens; only of a job submitted with `progress=True`. Ends with the job.

        While nobody reads its frames meanwhile, all of them are taken in, so that it comes to its end.
        """
        with self.intake.following():
            while True:
                while self._steps:
                    yield self._steps.popleft()
                if self._done:
                    return
                await self._wait()

    async def cancel(self, reason: str = "") -> bool:
        """Whether it was still running. It ends in `Cancelled`, within a step of what runs."""
        return await self._control.cancel_job(self.id, reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._done:
            await self.cancel(f"its client raised {type(error).__name__}")

    # What the exchange tells it.

    def next_seq(self) -> dict[str, int]:
        """By result: the first frame that has not come yet."""
        return {self._ports[port]: seq for port, seq in self._next_seq.items() if port < len(self._ports)}

    def accept(self, job: str, accepted: Accepted) -> None:
        self.id = job
        self.flow = accepted.flow
        self.flow_version = accepted.flow_version
        self.existed = accepted.existed
        self._ports = tuple(accepted.results)
        self.intake.open(len(self._ports))

    def take(self, event: JobEvent, kind: str) -> None:
        """A frame, a step, or the end. After a reconnect, frames that had come before are dropped."""
        if kind == "frame":
            frame = event.frame
            if frame.port >= len(self._ports):
                raise ValueError(f"a frame of result {frame.port} of a job that has {len(self._ports)} results")
            if frame.mark == MARK_NONE:
                if frame.seq < self._next_seq.get(frame.port, 0):
                    self.intake.dropped(frame.port, len(frame.payload))
                    return
                self._next_seq[frame.port] = frame.seq + 1
                self._frames.append(frame)
                self.intake.arrived(frame.port, len(frame.payload))
        elif kind == "progress":
            self._steps.append(event.progress)
        elif kind == "ended":
            self._end = event.ended
            self._finish()
            if event.ended.HasField("error"):
                self._failure = from_proto(event.ended.error)
        self._wake()

    def fail(self, error: OmniFlowError) -> None:
        """The client lost it."""
        self._failure = error
        self._finish()
        self._wake()

    def _finish(self) -> None:
        self._done = True
        self.intake.close()

    def _next_frame(self) -> ResultFrame:
        frame = self._frames.popleft()
        self.intake.handed_out(frame.port, len(frame.payload))
        return frame

    def _decoded(self, frame: ResultFrame) -> Frame:
        name = self._ports[frame.port]
        return Frame(name, frame.seq, decode(frame.payload, self._kind(frame.port), field=name))

    def _collected(self, port: int, values: list[Any]) -> Any:
        kind = self._kind(port)
        if (kind is not None and kind.stream) or len(values) > 1:
            return values
        return values[0] if values else None

    def _kind(self, port: int) -> ValueType | None:
        """Only of the version that runs: an older one's types may differ."""
        signature = self._signature
        if signature is None or signature.version != self.flow_version or port >= len(signature.results):
            return None
        return signature.results[port][1]

    async def _know_ports(self) -> None:
        """Of a version that is no longer the newest the types are unknown: values then come as what they are."""
        if self._signature is not None and self._signature.version == self.flow_version:
            return
        try:
            self._signature = await self._control.signature_of(self.flow, self.flow_version)
        except UnknownFlow:
            self._signature = None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
