"""What the scheduler's gRPC edge says to clients of every kind."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from omniflow.client import Client
from omniflow.errors import BadFlow, InvalidArgument, OmniFlowError, UnknownFlow, UnknownJob, UnknownRole
from omniflow.registry import EmbeddedEtcd, Registry
from omniflow.v1 import error_pb2, job_pb2
from omniflow.v1.flow_pb2 import Flow, Node
from omniflow.v1.job_pb2_grpc import JobServiceStub
from tests.integration.scheduler.conftest import SchedulerRun, one_node_flow, running_scheduler, text_port


def error_in(call: grpc.aio.AioRpcError) -> error_pb2.Error:
    metadata: Any = call.trailing_metadata() or ()
    for key, value in metadata:
        if key == "omniflow-error-bin":
            return error_pb2.Error.FromString(value)
    raise AssertionError(f"no Error in the metadata of {call}")


def test_a_reflection_client_finds_the_services_and_their_methods(shared: SchedulerRun) -> None:
    with grpc.insecure_channel(shared.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {
            "omniflow.v1.JobService",
            "omniflow.v1.ClusterService",
            "grpc.health.v1.Health",
        } <= set(database.get_services())
        file = database.FindFileContainingSymbol("omniflow.v1.JobService")
        methods = {method.name for service in file.service for method in service.method}
        assert methods == {"Submit", "Connect", "Watch", "Get", "List", "Ack", "Cancel"}


def test_health_is_told_for_the_process_and_each_service(shared: SchedulerRun) -> None:
    with grpc.insecure_channel(shared.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "omniflow.v1.JobService", "omniflow.v1.ClusterService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_an_unknown_flow_is_not_found_with_the_error_in_the_metadata(shared: SchedulerRun) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        call = JobServiceStub(channel).Submit(job_pb2.SubmitRequest(flow="nowhere"), timeout=30)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        error = error_in(raised.value)
        assert error.code == error_pb2.UNKNOWN_FLOW
        assert "nowhere" in error.message


async def test_on_the_shared_stream_a_refusal_is_an_event_and_the_stream_goes_on(shared: SchedulerRun) -> None:
    async with Client(shared.address) as client:
        refusals = await asyncio.gather(
            *[client.submit("nowhere", {"text": str(number)}) for number in range(3)], return_exceptions=True
        )
        assert [type(each) for each in refusals] == [UnknownFlow] * 3


@pytest.mark.parametrize("method", ["Get", "Cancel", "Ack"])
async def test_an_unknown_job_is_not_found(shared: SchedulerRun, method: str) -> None:
    requests = {
        "Get": job_pb2.GetRequest(job="4711"),
        "Cancel": job_pb2.CancelRequest(job="4711"),
        "Ack": job_pb2.AckRequest(job="4711"),
    }
    async with grpc.aio.insecure_channel(shared.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await getattr(JobServiceStub(channel), method)(requests[method], timeout=30)
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        assert error_in(raised.value).field == "job"


async def test_watching_an_unknown_job_is_not_found(shared: SchedulerRun) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        call = JobServiceStub(channel).Watch(job_pb2.WatchRequest(job="4711"), timeout=30)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert error_in(raised.value).code == error_pb2.UNKNOWN_JOB
    async with Client(shared.address) as client:
        with pytest.raises(UnknownJob):
            await client.watch("4711")


@pytest.mark.parametrize("path", ["Submit", "Watch"])
async def test_bytes_that_are_no_request_are_an_invalid_argument(shared: SchedulerRun, path: str) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        call = channel.unary_stream(f"/omniflow.v1.JobService/{path}", None, None)(b"\xff\xff\xff", timeout=30)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("path", ["Get", "List", "Ack", "Cancel"])
async def test_bytes_that_are_no_question_are_an_invalid_argument(shared: SchedulerRun, path: str) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary(f"/omniflow.v1.JobService/{path}", None, None)(b"\xff\xff\xff", timeout=30)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error_in(raised.value).code == error_pb2.INVALID_ARGUMENT


async def test_a_client_that_does_not_read_refusals_is_not_listened_to(shared: SchedulerRun) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        stub: Any = JobServiceStub(channel)
        call = stub.Connect(timeout=30)
        wrong = job_pb2.ClientMessage(tag=1, cancel=job_pb2.CancelRequest(job="4711" * 50))
        batch = job_pb2.ClientBatch(messages=[wrong] * 2_000)
        sent = 0
        try:
            while sent < 10_000:
                async with asyncio.timeout(1):
                    await call.write(batch)
                sent += 1
        except TimeoutError:
            pass
        assert sent < 10_000, "20 million refusals would have found room"
        call.cancel()


async def test_a_stream_of_nonsense_ends_and_nobody_else_notices(shared: SchedulerRun) -> None:
    async with Client(shared.address) as client:
        with pytest.raises(UnknownFlow):
            await client.submit("nowhere")
        async with grpc.aio.insecure_channel(shared.address) as channel:
            raw: Any = channel
            call = raw.stream_stream("/omniflow.v1.JobService/Connect")(timeout=30)
            await call.write(b"\xff\xff\xff")
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call.read()
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(UnknownFlow):
            await client.submit("nowhere")


async def test_a_deadline_ends_the_stream(shared: SchedulerRun) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        stub: Any = JobServiceStub(channel)
        call = stub.Connect(timeout=0.5, metadata=(("who", "a stock client"),))
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_bytes_that_are_no_http2_disturb_nobody(shared: SchedulerRun) -> None:
    async with Client(shared.address) as client:
        with pytest.raises(UnknownFlow):
            await client.submit("nowhere")
        host, port = shared.address.rsplit(":", 1)
        for begun in (
            b"\xaa" * 65_536,
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xaa" * 65_536,
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(begun)
            async with asyncio.timeout(30):
                with suppress(ConnectionResetError):
                    await reader.read()
            writer.close()
        _, half = await asyncio.open_connection(host, int(port))
        half.write(b"PRI * HTTP/2.0")
        with pytest.raises(UnknownFlow):
            await client.submit("nowhere")
        half.close()


async def test_a_client_that_has_said_everything_is_still_answered(shared: SchedulerRun) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        stub: Any = JobServiceStub(channel)
        call = stub.Connect(timeout=30)
        submit = job_pb2.ClientMessage(tag=5, submit=job_pb2.SubmitRequest(flow="nowhere"))
        await call.write(job_pb2.ClientBatch(messages=[submit]))
        await call.done_writing()
        batch = await call.read()
        assert [(event.tag, event.refused.code) for event in batch.events] == [(5, error_pb2.UNKNOWN_FLOW)]
        call.cancel()


async def test_a_flow_is_checked_stored_and_known_again(
    scheduler: SchedulerRun, etcd: EmbeddedEtcd, cluster: str
) -> None:
    async with Client(scheduler.address) as client, Registry(etcd.endpoint, cluster) as registry:
        version = await client.register_flow(one_node_flow())
        assert version
        assert await client.register_flow(one_node_flow()) == version
        assert [(flow.name, flow.version) for flow in await client.flows()] == [("shout", version)]
        assert [(flow.name, flow.version) for flow in await registry.flows()] == [("shout", version)]


async def test_a_version_is_the_content_whatever_the_sender_calls_it(scheduler: SchedulerRun) -> None:
    first, second = one_node_flow(), one_node_flow(role="soft")
    async with Client(scheduler.address) as client:
        second.version = await client.register_flow(first)
        assert await client.register_flow(second) != second.version
        assert [flow.nodes[0].role for flow in await client.flows()] == ["soft"]


async def test_a_flow_rolled_back_stays_so_for_the_next_scheduler(
    tmp_path: Path, etcd: EmbeddedEtcd, cluster: str
) -> None:
    with running_scheduler(tmp_path, etcd.endpoint, cluster) as first:
        async with Client(first.address) as client:
            version = await client.register_flow(one_node_flow())
            await client.register_flow(one_node_flow(role="soft"))
            assert await client.register_flow(one_node_flow()) == version
        first.kill()
    with running_scheduler(tmp_path, etcd.endpoint, cluster) as second:
        async with Client(second.address) as client:
            assert [flow.version for flow in await client.flows()] == [version]


async def test_a_flow_that_another_process_stores_becomes_known(
    scheduler: SchedulerRun, etcd: EmbeddedEtcd, cluster: str, tmp_path: object
) -> None:
    async with Client(scheduler.address) as client, Registry(etcd.endpoint, cluster) as registry:
        version = await client.register_flow(one_node_flow("first"))
        other = one_node_flow("second")
        other.version = version
        await registry.put_flow(other)
        async with asyncio.timeout(30):
            while len(await client.flows()) < 2:  # the scheduler tells nobody when it has seen it  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_every_problem_of_a_bad_flow_is_told(shared: SchedulerRun) -> None:
    bad = Flow(name="bad", results=[text_port("a"), text_port("b")], nodes=[Node(name="n", role="r", method="m")])
    async with Client(shared.address) as client:
        with pytest.raises(BadFlow) as raised:
            await client.register_flow(bad)
        assert "problem" in raised.value.message
        assert await client.flows() == ()


async def test_a_role_that_nobody_ever_served_is_refused_by_name(scheduler: SchedulerRun) -> None:
    async with Client(scheduler.address) as client:
        await client.register_flow(one_node_flow())
        with pytest.raises(UnknownRole, match="loud"):
            await client.submit("shout", {"text": "x"})


async def test_inputs_over_the_limit_are_refused_by_name(scheduler: SchedulerRun) -> None:
    async with Client(scheduler.address) as client:
        await client.register_flow(one_node_flow())
        with pytest.raises(OmniFlowError) as raised:
            await client.submit("shout", {"text": "x" * (70 * 1024 * 1024)})
        assert raised.value.code_name == "TOO_LARGE"


async def test_draining_an_unknown_worker_names_the_field(shared: SchedulerRun) -> None:
    async with Client(shared.address) as client:
        with pytest.raises(InvalidArgument, match="nobody") as raised:
            await client.drain("nobody")
        assert raised.value.field == "worker"


async def test_the_status_tells_cluster_term_and_registry(shared: SchedulerRun) -> None:
    async with Client(shared.address) as client:
        status = await client.cluster_status()
        assert (status.cluster, status.registry_reachable) == ("shared", True)
        assert status.term > 0
        assert await client.workers() == ()
        assert await client.roles() == ()
        assert await client.list() == ()
