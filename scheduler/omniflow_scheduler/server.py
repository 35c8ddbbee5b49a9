"""The gRPC port and what answers there: the core the stream of jobs, gRPC's own server everything else.

Nearly every message belongs to that stream, and one costs the core a tenth of what it costs the Python library. The
port is the core's, which passes on what it does not answer itself, byte for byte (`core-rs/grpc`).
"""

import asyncio
import uuid

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from omniflow.config import TlsConfig
from omniflow.registry import Registry
from omniflow.v1.cluster_pb2_grpc import add_ClusterServiceServicer_to_server
from omniflow_core import AddressInUse, Hub
from omniflow_core import Edge as Port
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
        # Twice the limit of a job: what is somewhat too large is refused by name, not by a broken call.
        self._max_message_bytes = min(2 * max_input_bytes + MEBIBYTE, 2**31 - 1)
        self._server = grpc.aio.server(options=_options(self._max_message_bytes))
        # The stubs of grpc-health-checking leave its asyncio half out.
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        try:
            self._port = Port(listen)
        except (AddressInUse, OSError) as error:
            raise PortInUse(listen, str(error)) from None
        # An abstract name: nothing of it is left in the file system, however this process ends.
        self._behind = f"omniflow-{uuid.uuid4().hex}"
        self._server.add_insecure_port(f"unix-abstract:{self._behind}")
        self.address = f"{listen.rpartition(':')[0]}:{self._port.port}"

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
        self._port.start(hub, job_service.CONNECT, self._behind, max_message_bytes=self._max_message_bytes)

    async def announce_end(self) -> None:
        """Health says NOT_SERVING from now on; calls go on."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace: float) -> None:
        """Ends every call, after `grace` seconds at most. Clients on the stream of jobs get what there is for them."""
        self._port.finish()
        await self._server.stop(grace)
        await asyncio.to_thread(self._port.stop)


def _options(max_message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 64 * 1024),
    ]
