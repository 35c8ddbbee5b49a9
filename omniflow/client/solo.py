"""A job with large inputs: a call of its own, so that it holds up nobody's stream and a refusal touches nobody else."""

import asyncio

import grpc.aio

from omniflow.client.address import Dialer
from omniflow.client.exchange import FIRST_PAUSE, Exchange
from omniflow.client.failures import failure_of, is_break
from omniflow.client.job import Job
from omniflow.errors import OmniFlowError, from_proto
from omniflow.v1.job_pb2 import JobEvent, SubmitRequest, WatchRequest

SUBMIT = "/omniflow.v1.JobService/Submit"
TRIES = 4


class SoloSubmit:
    """One large job. `run` is its life; `accepted` is done when the scheduler has answered."""

    def __init__(self, dialer: Dialer, exchange: Exchange, job: Job, request: SubmitRequest) -> None:
        self._dialer = dialer
        self._exchange = exchange
        self._job = job
        self._request = request
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._read = asyncio.Event()
        job.intake.tell = lambda _: self._read.set()

    async def run(self) -> None:
        """Sends again, under the same idempotency key, until answered; a job accepted is resumed on the stream."""
        for attempt in range(1, TRIES + 1):
            try:
                await self._call()
            except OmniFlowError as error:
                self._fail(error)
            except grpc.aio.AioRpcError as error:
                if self.accepted.done() and is_break(error):
                    await self._resume()
                elif is_break(error) and attempt < TRIES:
                    await asyncio.sleep(attempt * FIRST_PAUSE)
                    continue
                else:
                    self._fail(failure_of(error, self._dialer.words, "submitting a job"))
            return

    @property
    def to_cancel(self) -> str:
        """The job that ends with its client; empty when there is none."""
        return "" if self._request.detach or self._job.done else self._job.id

    async def _call(self) -> None:
        channel = await self._dialer.connect()
        call = channel.unary_stream(SUBMIT, SubmitRequest.SerializeToString, JobEvent.FromString)(self._request)
        try:
            async for event in call:
                self._take(event)
                await self._until_read()
        finally:
            call.cancel()

    async def _until_read(self) -> None:
        """While who reads it is behind, the call waits, and gRPC tells the scheduler."""
        while self._job.intake.is_behind:
            self._read.clear()
            await self._read.wait()

    def _take(self, event: JobEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "refused":
            raise from_proto(event.refused)
        if kind == "accepted":
            self._job.accept(event.job, event.accepted)
            if not self.accepted.done():
                self.accepted.set_result(None)
        elif kind is not None:
            self._job.take(event, kind)

    async def _resume(self) -> None:
        watch = WatchRequest(job=self._job.id, next_seq=self._job.next_seq(), progress=self._request.progress)
        try:
            await self._exchange.watch(self._job, watch, detach=self._request.detach)
        except OmniFlowError as error:
            self._job.fail(error)

    def _fail(self, error: OmniFlowError) -> None:
        if self.accepted.done():
            self._job.fail(error)
        else:
            self.accepted.set_exception(error)
