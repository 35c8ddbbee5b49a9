"""A client whose connection breaks finds its jobs again; one that leaves or is gone for good has them cancelled."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from omniflow.client import Client
from omniflow.errors import InvalidArgument
from omniflow.registry import EmbeddedEtcd, Registration, this_host
from omniflow.types import encode
from omniflow.v1 import job_pb2
from omniflow.v1.cluster_pb2 import MethodInfo, RoleInfo, WorkerInfo
from omniflow.v1.job_pb2_grpc import JobServiceStub
from omniflow_core import Activation, Node
from tests.integration.scheduler.conftest import SchedulerRun, one_node_flow, running_scheduler, text_port

# Long enough for a client to be back on a busy machine.
GRACE_S = 3.0
PATIENCE_S = 15.0


class Proxy:
    """Between clients and a scheduler; `cut` breaks every connection, the way a network does."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._writers: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        pair = {writer, there_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, there_writer))
                group.create_task(_pump(there_reader, writer))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()


@pytest.fixture
def node(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str) -> Iterator[Node]:
    """A worker without an engine: the test does its work."""
    info = WorkerInfo(
        name="hand",
        incarnation="1",
        roles=[
            RoleInfo(
                name="loud",
                methods=[MethodInfo(name="say", inputs=[text_port("text")], outputs=[text_port("said")])],
                concurrency=4,
            )
        ],
        host=this_host(),
        pid=os.getpid(),
    )
    node = Node(info.SerializeToString(), [f"unix:{tmp_path}/hand.sock"], cluster=cluster)
    info.addresses.extend(node.addresses)
    with Registration(etcd.endpoint, cluster, info):
        yield node
    node.close()


@pytest.fixture
def scheduler(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str, node: Node) -> Iterator[SchedulerRun]:
    with running_scheduler(tmp_path, etcd.endpoint, cluster, client_grace_s=GRACE_S) as running:
        yield running


@pytest.fixture
def slow_to_forget(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str, node: Node) -> Iterator[SchedulerRun]:
    """Here a job that ends soon after its client has been cancelled by a word."""
    with running_scheduler(tmp_path, etcd.endpoint, cluster, client_grace_s=600) as running:
        yield running


@pytest.fixture
async def proxy(scheduler: SchedulerRun) -> AsyncIterator[Proxy]:
    proxy = Proxy(scheduler.address)
    async with await proxy.serve():
        yield proxy


async def act(node: Node) -> Activation:
    """What the worker is given next."""
    return (await asyncio.to_thread(node.ready("loud").take, 1, PATIENCE_S))[0]


def answer(activation: Activation) -> None:
    text = activation.value("text")
    assert isinstance(text, bytes)
    activation.emit("said", [text])
    activation.finish({})


async def cancelled(activation: Activation) -> None:
    """Returns when it is; its thread would be told by its next call."""
    over = threading.Event()

    def look() -> None:
        while not activation.cancelled and not over.wait(0.01):
            pass

    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(look)
    finally:
        over.set()


async def test_a_job_goes_on_over_a_broken_connection_and_only_for_a_client_that_comes_back(
    scheduler: SchedulerRun, proxy: Proxy, node: Node
) -> None:
    async with Client(proxy.address) as client, grpc.aio.insecure_channel(proxy.address) as channel:
        await client.register_flow(one_node_flow())
        job = await client.submit("shout", {"text": "x"})
        ours = await act(node)
        stub: Any = JobServiceStub(channel)
        request = job_pb2.SubmitRequest(flow="shout", inputs=[job_pb2.Input(name="text", frames=[encode("x")])])
        lost = stub.Submit(request)
        assert (await lost.read()).WhichOneof("event") == "accepted"
        theirs = await act(node)
        proxy.cut()
        await cancelled(theirs)
        assert not ours.cancelled
        assert (await client.get(job.id)).state == job_pb2.JobStatus.RUNNING
        answer(ours)
        assert await job.result() == {"result": "x"}


async def test_a_client_that_leaves_has_its_jobs_cancelled_at_once(slow_to_forget: SchedulerRun, node: Node) -> None:
    async with Client(slow_to_forget.address) as client:
        await client.register_flow(one_node_flow())
        await client.submit("shout", {"text": "small"})
        small = await act(node)
        await client.submit("shout", {"text": "x" * 2_000_000})
        large = await act(node)
        await client.submit("shout", {"text": "kept"}, detach=True)
        kept = await act(node)
    await cancelled(small)
    await cancelled(large)
    assert not kept.cancelled
    answer(kept)


async def test_a_key_given_with_another_request_is_refused_by_name(slow_to_forget: SchedulerRun, node: Node) -> None:
    async with Client(slow_to_forget.address) as client:
        await client.register_flow(one_node_flow())
        job = await client.submit("shout", {"text": "one"}, idempotency_key="k")
        with pytest.raises(InvalidArgument, match=job.id) as raised:
            await client.submit("shout", {"text": "two"}, idempotency_key="k")
        assert raised.value.field == "idempotency_key"
        assert (await client.submit("shout", {"text": "one"}, idempotency_key="k")).id == job.id
