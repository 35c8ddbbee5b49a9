"""When a cluster is ready: the scheduler's health service says SERVING, and every worker of the file is READY."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from omniflow.client.failures import sent_along
from omniflow.errors import OmniFlowError, from_proto
from omniflow.launch.errors import StartFailed
from omniflow.launch.ports import split
from omniflow.v1 import cluster_pb2, cluster_pb2_grpc, flow_pb2

_OPTIONS = (
    # It comes up within the second; gRPC would wait longer than that between its tries.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.enable_http_proxy", 0),
)
_STATUS_INTERVAL_S = 0.1


@asynccontextmanager
async def open_channel(addresses: Sequence[str]) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to whichever scheduler leads, once it serves. They may not listen yet."""
    channels = [grpc.aio.insecure_channel(address, options=_OPTIONS) for address in addresses]
    waits = {asyncio.ensure_future(until_serving(channel)): channel for channel in channels}
    try:
        serving, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        first = next(iter(serving))
        first.result()
        yield waits[first]
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        for channel in channels:
            await channel.close(None)


async def until_listening(address: str) -> None:
    """Returns once somebody listens there: a scheduler that stands by does, and answers nothing yet."""
    host, port = split(address)
    while True:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(_STATUS_INTERVAL_S)
        else:
            writer.close()
            return


async def until_serving(channel: grpc.aio.Channel) -> None:
    """Returns once the health service says SERVING: it tells us of every change."""
    stub = health_pb2_grpc.HealthStub(channel)
    while True:
        try:
            async for answer in stub.Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True):
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
        except grpc.aio.AioRpcError:
            await asyncio.sleep(_STATUS_INTERVAL_S)


async def missing_workers(channel: grpc.aio.Channel, names: Iterable[str]) -> list[str]:
    """Those of `names` that are not READY."""
    stub = cluster_pb2_grpc.ClusterServiceStub(channel)
    status = await stub.Status(cluster_pb2.StatusRequest(), timeout=5)
    ready = {worker.info.name for worker in status.workers if worker.state == cluster_pb2.WorkerStatus.READY}
    return [name for name in names if name not in ready]


async def served_roles(channel: grpc.aio.Channel) -> set[str]:
    """The roles of all workers of the cluster, wherever they run."""
    stub = cluster_pb2_grpc.ClusterServiceStub(channel)
    status = await stub.Status(cluster_pb2.StatusRequest(), timeout=30)
    return {role.name for worker in status.workers for role in worker.info.roles}


async def until_workers_ready(channel: grpc.aio.Channel, names: Iterable[str]) -> None:
    """Returns once every one is READY. The service has no call that waits, so this asks, while starting only."""
    expected = list(names)
    while True:
        try:
            if not await missing_workers(channel, expected):
                return
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise StartFailed(
                    "another server answers at the scheduler's address",
                    field="scheduler.listen",
                    cure="end it, or set `scheduler.listen` to a free port",
                ) from None
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
        await asyncio.sleep(_STATUS_INTERVAL_S)


async def register_flow(channel: grpc.aio.Channel, flow: bytes) -> None:
    """Makes a compiled flow known to the cluster. Raises `OmniFlowError`."""
    request = cluster_pb2.RegisterFlowRequest(flow=flow_pb2.Flow.FromString(flow))
    try:
        await cluster_pb2_grpc.ClusterServiceStub(channel).RegisterFlow(request, timeout=30)
    except grpc.aio.AioRpcError as error:
        raise _as_omniflow_error(error) from None


def _as_omniflow_error(error: grpc.aio.AioRpcError) -> OmniFlowError:
    sent = sent_along(error)
    return from_proto(sent) if sent is not None else OmniFlowError(f"the scheduler refused: {error.details()}")
