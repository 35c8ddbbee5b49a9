"""The gRPC server: its options, its port, its services."""

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from omniflow.config import TlsConfig
from omniflow.registry import Registry
from omniflow.v1.cluster_pb2_grpc import add_ClusterServiceServicer_to_server
from omniflow_core import Hub
from omniflow_scheduler import cluster_service, job_service
from omniflow_scheduler.cluster_service import ClusterService
from omniflow_scheduler.config import MEBIBYTE
from omniflow_scheduler.errors import PortInUse
from omniflow_scheduler.follow import RegistryFollower
from omniflow_scheduler.job_service import JobService
from omniflow_scheduler.outbox import Outbox

SERVICES = (job_service.SERVICE, cluster_service.SERVICE)


class Edge:
    """Bound at once, so that a port in use is known before anything else; serves from `start` on."""

    def __init__(self, listen: str, max_input_bytes: int) -> None:
        """Raises `PortInUse`."""
        self._server = grpc.aio.server(options=_options(max_input_bytes))
        # The stubs of grpc-health-checking leave its asyncio half out.
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        try:
            port = self._server.add_insecure_port(listen)
        except RuntimeError as error:
            raise PortInUse(listen, str(error)) from None
        if port == 0:
            raise PortInUse(listen, "the address cannot be bound")
        self.address = f"{listen.rpartition(':')[0]}:{port}"

    async def start(
        self, hub: Hub, outbox: Outbox, registry: Registry, follower: RegistryFollower, tls: TlsConfig | None
    ) -> None:
        """`tls`: of connections to workers."""
        self._server.add_generic_rpc_handlers((JobService(hub, outbox).handlers(),))
        add_ClusterServiceServicer_to_server(ClusterService(hub, registry, follower, tls), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        await self._server.start()
        for service in ("", *SERVICES):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def announce_end(self) -> None:
        """Health says NOT_SERVING from now on; calls go on."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace: float) -> None:
        """Ends every call, after `grace` seconds at most."""
        await self._server.stop(grace)


def _options(max_input_bytes: int) -> list[tuple[str, int]]:
    return [
        # Two schedulers on one port must not share it without knowing.
        ("grpc.so_reuseport", 0),
        # Twice the limit of a job: what is somewhat too large is refused by name, not by a broken call.
        ("grpc.max_receive_message_length", min(2 * max_input_bytes + MEBIBYTE, 2**31 - 1)),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 64 * 1024),
        # A client whose host vanished is found within 40 s, and its jobs are cancelled.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]
