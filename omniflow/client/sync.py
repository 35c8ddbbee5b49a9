"""The same client for code without an event loop: a loop of its own in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from omniflow.client.client import Client
from omniflow.client.job import Frame, Job
from omniflow.client.signature import Compilable
from omniflow.client.window import DEFAULT
from omniflow.errors import OmniFlowError, Unavailable
from omniflow.v1 import cluster_pb2, job_pb2
from omniflow.v1.flow_pb2 import Flow

T = TypeVar("T")


class SyncJob:
    """`Job` for threads: iterate it for its frames, or ask for `result()`."""

    def __init__(self, job: Job, loop: "_LoopThread") -> None:
        self._job = job
        self._loop = loop

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def done(self) -> bool:
        """Whether it has ended and all of it is here; frames may still wait to be read."""
        return self._job.done

    @property
    def report(self) -> job_pb2.Report | None:
        """Where the time went; None until the job has ended."""
        return self._job.report

    @property
    def error(self) -> OmniFlowError | None:
        """Why it ended without its result; None when it has it, or runs."""
        return self._job.error

    def __iter__(self) -> Iterator[Frame]:
        """Frames as they come, of all results. Raises the job's error at its end."""
        return self._loop.iterate(self._job.__aiter__())

    def result(self) -> dict[str, Any]:
        """Waits for the end. By result: its value, or the list of a stream's values. Raises the job's error."""
        return self._loop.run(self._job.result())

    def progress(self) -> Iterator[job_pb2.NodeProgress]:
        """What its nodes do, as it happens; only of a job submitted with `progress=True`."""
        return self._loop.iterate(self._job.progress())

    def cancel(self, reason: str = "") -> bool:
        """Whether it was still running."""
        return self._loop.run(self._job.cancel(reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._job.__aexit__(kind, error, trace))


class SyncClient:
    """`Client` for threads, with the same names; safe to share between them."""

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
        """As `Client`. The connection is made at first use, or by `with`."""
        self._loop = _LoopThread()
        self._client = Client(
            address,
            etcd=etcd,
            cluster=cluster,
            tenant=tenant,
            connect_timeout=connect_timeout,
            call_timeout=call_timeout,
            window_frames=window_frames,
            window_bytes=window_bytes,
        )

    @property
    def address(self) -> str:
        """`Client.address`."""
        return self._client.address

    def __enter__(self) -> Self:
        try:
            self._loop.run(self._client.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancels its jobs that were not submitted with `detach`; ends the thread. Does nothing the second time."""
        self._loop.close(self._client.close)

    def submit(
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
    ) -> SyncJob:
        """`Client.submit`."""
        submitted = self._client.submit(
            flow,
            inputs,
            parameters=parameters,
            priority=priority,
            deadline=deadline,
            idempotency_key=idempotency_key,
            tenant=tenant,
            progress=progress,
            detach=detach,
        )
        return SyncJob(self._loop.run(submitted), self._loop)

    def watch(self, job_id: str, next_seq: Mapping[str, int] | None = None, *, progress: bool = False) -> SyncJob:
        """`Client.watch`."""
        return SyncJob(self._loop.run(self._client.watch(job_id, next_seq, progress=progress)), self._loop)

    def get(self, job_id: str) -> job_pb2.JobStatus:
        """`Client.get`."""
        return self._loop.run(self._client.get(job_id))

    def list(self, *, ended: bool = False, tenant: str = "", limit: int = 100) -> Sequence[job_pb2.JobStatus]:
        """`Client.list`."""
        return self._loop.run(self._client.list(ended=ended, tenant=tenant, limit=limit))

    def cancel(self, job_id: str, reason: str = "") -> bool:
        """`Client.cancel`."""
        return self._loop.run(self._client.cancel(job_id, reason))

    def cluster_status(self) -> cluster_pb2.ClusterStatus:
        """`Client.cluster_status`."""
        return self._loop.run(self._client.cluster_status())

    def memory(self, worker: str = "") -> Sequence[cluster_pb2.WorkerMemory]:
        """`Client.memory`."""
        return self._loop.run(self._client.memory(worker))

    def workers(self) -> Sequence[cluster_pb2.WorkerStatus]:
        """`Client.workers`."""
        return self._loop.run(self._client.workers())

    def roles(self) -> Sequence[cluster_pb2.RoleInfo]:
        """`Client.roles`."""
        return self._loop.run(self._client.roles())

    def flows(self, name: str = "", version: bytes = b"") -> Sequence[Flow]:
        """`Client.flows`."""
        return self._loop.run(self._client.flows(name, version))

    def register_flow(self, flow: Compilable | Flow) -> bytes:
        """`Client.register_flow`."""
        return self._loop.run(self._client.register_flow(flow))

    def unregister_flow(self, name: str) -> int:
        """`Client.unregister_flow`."""
        return self._loop.run(self._client.unregister_flow(name))

    def drain(self, worker: str, *, within: float = 0.0) -> int:
        """`Client.drain`."""
        return self._loop.run(self._client.drain(worker, within=within))


class _LoopThread:
    """An event loop in a daemon thread, started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for it; an interrupt of the waiting thread cancels it."""
        try:
            loop = self._started()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an async iterator, each fetched when asked for."""
        while fetched := self.run(_fetch(items)):
            yield fetched[0]

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(last(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise Unavailable("the client is closed", cure="make another SyncClient")
            if self._loop is None:
                self._loop = _new_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="omniflow client", daemon=True)
                self._thread.start()
            return self._loop


async def _fetch(items: AsyncIterator[T]) -> tuple[T] | None:
    """The next one; None at the end."""
    async for item in items:
        return (item,)
    return None


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: it halves the client's cost of a job."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
