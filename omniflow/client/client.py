"""The asyncio client."""

import asyncio
import contextlib
import itertools
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from omniflow.client.address import Dialer, Finder, FixedAddresses, LeaderAddress, split_addresses
from omniflow.client.exchange import FAREWELL_S, FIRST_PAUSE, LONGEST_PAUSE, Exchange
from omniflow.client.failures import failure_of, has_error, unknown_flow
from omniflow.client.job import Job
from omniflow.client.signature import Compilable, Signature, encode_parameters
from omniflow.client.solo import SoloSubmit
from omniflow.client.window import DEFAULT, Extent
from omniflow.errors import InternalError, InvalidArgument, OmniFlowError
from omniflow.v1 import cluster_pb2, job_pb2
from omniflow.v1.cluster_pb2_grpc import ClusterServiceStub
from omniflow.v1.flow_pb2 import Flow
from omniflow.v1.job_pb2_grpc import JobServiceStub
from omniflow.v1.value_pb2 import Value

log = logging.getLogger(__name__)

T = TypeVar("T")

# A job over this size travels in a call of its own.
SOLO_BYTES = 1024 * 1024


class Client:
    """Submits jobs to a cluster and asks about it. Belongs to one event loop.

    All its jobs share one connection and one stream, which is resumed when it breaks. Closing the client, also by an
    exception in its `async with` block, cancels those of its jobs that were not submitted with `detach`.
    """

    def __init__(
        self,
        address: str | Sequence[str] | None = None,
        *,
        etcd: str | Sequence[str] | None = None,
        cluster: str | None = None,
        tenant: str = "",
        connect_timeout: float = 10.0,
        call_timeout: float = 30.0,
        window_frames: int = DEFAULT.frames,
        window_bytes: int = DEFAULT.bytes,
    ) -> None:
        """`address`: HOST:PORT of the scheduler, or those of all schedulers of the cluster (a sequence, or with commas
        between them), of which the leader is found; or `etcd` endpoints and the name of the `cluster` to find it by.

        `connect_timeout`: seconds until `Unavailable` when it cannot be reached; `call_timeout`: of each question.
        `window_frames`, `window_bytes`: how much of each result of a job waits here for a reader that is slow.
        """
        self._window = Extent.window(window_frames, window_bytes)
        self._dialer = Dialer(_finder(address, etcd, cluster), connect_timeout)
        self._exchange = Exchange(self._dialer, connect_timeout, self._window)
        self._tenant = tenant
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._signatures: dict[tuple[str, bytes], Signature] = {}
        self._registered: dict[Compilable, Signature] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._solos: set[SoloSubmit] = set()
        self._running = False
        self._key = uuid.uuid4().hex
        self._numbers = itertools.count(1)

    @property
    def address(self) -> str:
        """HOST:PORT of the scheduler that it was connected to last; empty before the first connection."""
        return self._dialer.address

    async def __aenter__(self) -> Self:
        await self._dialer.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels its jobs that are not detached, ends the stream and the connection. Does nothing the second time."""
        await self._exchange.leave()
        await self._leave_alone()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dialer.close()

    # Jobs.

    async def submit(
        self,
        flow: str | Compilable,
        inputs: Mapping[str, Any] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        priority: int = 0,
        deadline: float | None = None,
        idempotency_key: str = "",
        tenant: str | None = None,
        progress: bool = False,
        detach: bool = False,
    ) -> Job:
        """Returns once the job is accepted.

        `flow`: the name of a registered flow, or a `@flow` function, which is registered first. `inputs`: by name; a
        list of frames for a stream. `parameters`: the flow's own by name, and "node.parameter" to a value that
        overrides a constant of the flow. `deadline`: seconds from arrival. `detach`: the job goes on when this client
        goes. Raises what the job was refused with.
        """
        signature, its_inputs, its_parameters = await self._encoded(flow, inputs or {}, parameters or {})
        request = job_pb2.SubmitRequest(
            flow=flow if isinstance(flow, str) else flow.name,
            inputs=its_inputs,
            parameters=its_parameters,
            priority=priority,
            deadline_ms=_deadline_ms(deadline),
            idempotency_key=idempotency_key or f"{self._key}-{next(self._numbers)}",
            tenant=self._tenant if tenant is None else tenant,
            progress=progress,
            detach=detach,
        )
        if not isinstance(flow, str):
            request.flow_version = signature.version
        job = Job(self, signature, self._window)
        if request.ByteSize() > SOLO_BYTES:
            await self._submit_alone(job, request)
        else:
            self._ensure_running()
            await self._exchange.submit(job, request, shared=bool(idempotency_key) or detach)
        return job

    async def watch(self, job_id: str, next_seq: Mapping[str, int] | None = None, *, progress: bool = False) -> Job:
        """A job accepted earlier, from given frame numbers on (by result; from the first that is kept, otherwise).

        Raises `UnknownJob`.
        """
        job = Job(self, None, self._window)
        self._ensure_running()
        await self._exchange.watch(job, job_pb2.WatchRequest(job=job_id, next_seq=next_seq, progress=progress))
        return job

    async def get(self, job_id: str) -> job_pb2.JobStatus:
        """Raises `UnknownJob`."""
        request = job_pb2.GetRequest(job=job_id)
        return await self._ask("asking about a job", lambda c, t: JobServiceStub(c).Get(request, timeout=t))

    async def list(self, *, ended: bool = False, tenant: str = "", limit: int = 100) -> Sequence[job_pb2.JobStatus]:
        """Jobs, newest first; `ended` ones that are still kept, too."""
        request = job_pb2.ListRequest(ended=ended, tenant=tenant, limit=limit)
        answer = await self._ask("listing jobs", lambda c, t: JobServiceStub(c).List(request, timeout=t))
        return tuple(answer.jobs)

    async def cancel(self, job_id: str, reason: str = "") -> bool:
        """Whether it was still running. Raises `UnknownJob`."""
        request = job_pb2.CancelRequest(job=job_id, reason=reason)
        answer = await self._ask("cancelling a job", lambda c, t: JobServiceStub(c).Cancel(request, timeout=t))
        return answer.running

    # The cluster.

    async def cluster_status(self) -> cluster_pb2.ClusterStatus:
        """Workers, counts of jobs, term, version."""
        request = cluster_pb2.StatusRequest()
        return await self._ask("asking for the status", lambda c, t: ClusterServiceStub(c).Status(request, timeout=t))

    async def memory(self, worker: str = "") -> Sequence[cluster_pb2.WorkerMemory]:
        """Where the memory of each worker is; of that one alone when it is named. Without an account: it has not
        answered, and `silent` says why; or, where that is empty, it shares no pages and is not asked.

        Raises `InvalidArgument` for a name that no worker has."""
        request = cluster_pb2.MemoryRequest(worker=worker)
        answer = await self._ask("asking for memory", lambda c, t: ClusterServiceStub(c).Memory(request, timeout=t))
        return answer.workers

    async def workers(self) -> Sequence[cluster_pb2.WorkerStatus]:
        """Every worker that the scheduler knows."""
        request = cluster_pb2.ListWorkersRequest()
        answer = await self._ask("listing workers", lambda c, t: ClusterServiceStub(c).ListWorkers(request, timeout=t))
        return tuple(answer.workers)

    async def roles(self) -> Sequence[cluster_pb2.RoleInfo]:
        """Every role that a worker serves."""
        request = cluster_pb2.ListRolesRequest()
        answer = await self._ask("listing roles", lambda c, t: ClusterServiceStub(c).ListRoles(request, timeout=t))
        return tuple(answer.roles)

    async def flows(self, name: str = "", version: bytes = b"") -> Sequence[Flow]:
        """The newest version of every registered flow, or of one; or a given version of one, if it is registered."""
        request = cluster_pb2.ListFlowsRequest(name=name, version=version)
        answer = await self._ask("listing flows", lambda c, t: ClusterServiceStub(c).ListFlows(request, timeout=t))
        return tuple(answer.flows)

    async def register_flow(self, flow: Compilable | Flow) -> bytes:
        """The flow's version. Registering the same again changes nothing. Raises `BadFlow` with every problem."""
        compiled = flow if isinstance(flow, Flow) else flow.to_proto()
        request = cluster_pb2.RegisterFlowRequest(flow=compiled)
        answer = await self._ask(
            "registering a flow", lambda c, t: ClusterServiceStub(c).RegisterFlow(request, timeout=t)
        )
        named = Flow()
        named.CopyFrom(compiled)
        named.version = answer.version
        signature = Signature.of(named)
        self._signatures[named.name, answer.version] = self._signatures[named.name, b""] = signature
        return answer.version

    async def unregister_flow(self, name: str) -> int:
        """Forgets every version of a flow; jobs that run go on. How many versions there were. Raises `UnknownFlow`."""
        request = cluster_pb2.UnregisterFlowRequest(name=name)
        answer = await self._ask(
            "unregistering a flow", lambda c, t: ClusterServiceStub(c).UnregisterFlow(request, timeout=t)
        )
        self._signatures = {known: signature for known, signature in self._signatures.items() if known[0] != name}
        return answer.versions

    async def drain(self, worker: str, *, within: float = 0.0) -> int:
        """The worker takes nothing new, finishes and leaves. Activations that it has yet to end."""
        request = cluster_pb2.DrainRequest(worker=worker, timeout_ms=round(within * 1000))
        answer = await self._ask("draining a worker", lambda c, t: ClusterServiceStub(c).Drain(request, timeout=t))
        return answer.outstanding

    # What jobs ask of their client.

    async def cancel_job(self, job: str, reason: str) -> bool:
        """`cancel`, for `Job`."""
        return await self.cancel(job, reason)

    async def signature_of(self, flow: str, version: bytes) -> Signature:
        """Inputs and results of a registered flow; of the newest version for an empty one. Raises `UnknownFlow`."""
        known = self._signatures.get((flow, version))
        if known is not None:
            return known
        for each in await self.flows(flow):
            signature = Signature.of(each)
            self._signatures[flow, each.version] = self._signatures[flow, b""] = signature
        known = self._signatures.get((flow, version))
        if known is None:
            raise unknown_flow(flow, [each.name for each in await self.flows()], version=version)
        return known

    async def _signature_for(self, flow: str | Compilable) -> Signature:
        if not isinstance(flow, str):
            if flow not in self._registered:
                version = await self.register_flow(flow)
                self._registered[flow] = self._signatures[flow.name, version]
            return self._registered[flow]
        return await self.signature_of(flow, b"")

    async def _encoded(
        self, flow: str | Compilable, inputs: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> tuple[Signature, Sequence[job_pb2.Input], dict[str, Value]]:
        """What does not fit is tried on the newest version before it is called wrong: it may be new."""
        signature = await self._signature_for(flow)
        try:
            return signature, signature.encode(inputs), encode_parameters(parameters, signature)
        except InvalidArgument:
            if not isinstance(flow, str):
                raise
            del self._signatures[flow, b""]
            newest = await self.signature_of(flow, b"")
            if newest == signature:
                raise
            return newest, newest.encode(inputs), encode_parameters(parameters, newest)

    async def _submit_alone(self, job: Job, request: job_pb2.SubmitRequest) -> None:
        self._ensure_running()
        solo = SoloSubmit(self._dialer, self._exchange, job, request)
        self._solos.add(solo)
        task = self._spawn(solo.run(), "omniflow large job")
        task.add_done_callback(lambda _: self._solos.discard(solo))
        try:
            await solo.accepted
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _leave_alone(self) -> None:
        """Goodbye to the large jobs, whose calls have no word for it."""
        jobs = [solo.to_cancel for solo in self._solos if solo.to_cancel]
        if not jobs:
            return
        with contextlib.suppress(TimeoutError, OmniFlowError):
            async with asyncio.timeout(FAREWELL_S):
                for job in jobs:
                    await self.cancel(job, "its client left")

    def _ensure_running(self) -> None:
        if not self._running:
            self._running = True
            self._spawn(self._exchange.run(), "omniflow exchange")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """`close` awaits it; a defect in it fails the jobs rather than leaving them waiting."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the client's task %s failed", task.get_name(), exc_info=error)
            self._exchange.fail(InternalError("the client failed", cause=repr(error), cure="report this defect"))

    async def _ask(self, doing: str, call: Callable[[grpc.aio.Channel, float], Awaitable[T]]) -> T:
        """Every question may be asked twice: of a scheduler that went away, its successor is asked again.

        Perhaps more than once: one that is killed takes connections for a moment longer.
        """
        give_up_at = time.monotonic() + self._connect_timeout
        channel, pause = await self._dialer.channel(), FIRST_PAUSE
        while True:
            try:
                return await call(channel, self._call_timeout)
            except grpc.aio.AioRpcError as error:
                away = error.code() is grpc.StatusCode.UNAVAILABLE and not has_error(error)
                if not away or time.monotonic() >= give_up_at:
                    raise failure_of(error, self._dialer.words, doing) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            channel = await self._dialer.connect()


def _finder(address: str | Sequence[str] | None, etcd: str | Sequence[str] | None, cluster: str | None) -> Finder:
    if address is not None and etcd is None and (addresses := split_addresses(address)):
        return FixedAddresses(addresses)
    if address is None and etcd is not None and cluster is not None:
        return LeaderAddress(etcd, cluster)
    raise InvalidArgument(
        "a client needs to know where the scheduler is",
        field="address",
        cure='name it, Client("HOST:PORT"), or let it be found, Client(etcd="HOST:PORT", cluster="NAME")',
    )


def _deadline_ms(deadline: float | None) -> int:
    """0 stands for the cluster's maximum, so that a deadline of no time at all must be refused here."""
    if deadline is None:
        return 0
    if deadline <= 0:
        raise InvalidArgument(
            f"a deadline of {deadline} s is in the past", field="deadline", cure="give the seconds from now on"
        )
    return max(1, round(deadline * 1000))
