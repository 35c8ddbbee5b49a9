"""What a client without our generated code sees: health, and services that describe themselves."""

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.e2e.conftest import Here

OURS = {"omniflow.v1.JobService", "omniflow.v1.ClusterService"}


def test_services_are_listed_and_described_by_reflection(here: Here) -> None:
    with grpc.insecure_channel(here.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert set(database.get_services()) >= OURS | {"grpc.health.v1.Health"}
        pool = DescriptorPool(database)
        jobs = pool.FindServiceByName("omniflow.v1.JobService")
        assert {method.name for method in jobs.methods} == {
            "Submit",
            "Connect",
            "Watch",
            "Get",
            "List",
            "Ack",
            "Cancel",
        }
        # As grpcurl does: a call with messages that are known from reflection alone.
        status = pool.FindServiceByName("omniflow.v1.ClusterService").methods_by_name["Status"]
        call = channel.unary_unary(
            "/omniflow.v1.ClusterService/Status",
            request_serializer=GetMessageClass(status.input_type).SerializeToString,
            response_deserializer=GetMessageClass(status.output_type).FromString,
        )
        answer = call(GetMessageClass(status.input_type)(), timeout=10)
        assert {worker.info.name for worker in answer.workers} == {"first", "second", "third"}


@pytest.mark.parametrize("service", ["", *sorted(OURS)])
def test_the_health_service_says_that_it_serves(here: Here, service: str) -> None:
    with grpc.insecure_channel(here.address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
