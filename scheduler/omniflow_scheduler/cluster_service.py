"""`ClusterService`: what operators ask."""

import time
from typing import Any

import grpc.aio

from omniflow.client.failures import unknown_flow
from omniflow.config import TlsConfig
from omniflow.errors import BadFlow, InvalidArgument, OmniFlowError
from omniflow.registry import Registry
from omniflow.v1 import cluster_pb2 as c
from omniflow.v1.cluster_pb2_grpc import ClusterServiceServicer
from omniflow.v1.flow_pb2 import Flow
from omniflow_core import Hub, __version__, flow_version
from omniflow_scheduler.flow_check import require_valid
from omniflow_scheduler.follow import RegistryFollower
from omniflow_scheduler.memory import memory_of
from omniflow_scheduler.status import refuse_with

SERVICE = "omniflow.v1.ClusterService"

Context = grpc.aio.ServicerContext[Any, Any]


class ClusterService(ClusterServiceServicer):
    """Thin: the hub knows the live view, the registry keeps the flows."""

    def __init__(self, hub: Hub, registry: Registry, follower: RegistryFollower, tls: TlsConfig | None) -> None:
        """`tls`: of the connections to workers on other hosts."""
        self._hub = hub
        self._registry = registry
        self._follower = follower
        self._tls = tls
        self._started = time.monotonic()

    async def Status(self, request: c.StatusRequest, context: Context) -> c.ClusterStatus:  # noqa: N802
        return self._status()

    async def ListWorkers(  # noqa: N802
        self, request: c.ListWorkersRequest, context: Context
    ) -> c.ListWorkersResponse:
        return c.ListWorkersResponse(workers=self._status().workers)

    async def ListRoles(self, request: c.ListRolesRequest, context: Context) -> c.ListRolesResponse:  # noqa: N802
        """One entry a role, of a worker that lives rather than one that doesn't."""
        roles: dict[str, c.RoleInfo] = {}
        for worker in sorted(self._status().workers, key=lambda worker: worker.state == c.WorkerStatus.READY):
            roles.update((role.name, role) for role in worker.info.roles)
        return c.ListRolesResponse(roles=[roles[name] for name in sorted(roles)])

    async def ListFlows(self, request: c.ListFlowsRequest, context: Context) -> c.ListFlowsResponse:  # noqa: N802
        flows = (Flow.FromString(raw) for raw in self._hub.flows())
        found = [flow for flow in flows if request.name in {"", flow.name}]
        if request.version and found and found[0].version != request.version:
            found = await self._older(request.name, request.version, context)
        return c.ListFlowsResponse(flows=found)

    async def RegisterFlow(  # noqa: N802
        self, request: c.RegisterFlowRequest, context: Context
    ) -> c.RegisterFlowResponse:
        try:
            return await self._register(request.flow)
        except OmniFlowError as error:
            await refuse_with(context, error)

    async def UnregisterFlow(  # noqa: N802
        self, request: c.UnregisterFlowRequest, context: Context
    ) -> c.UnregisterFlowResponse:
        """Out of the registry first: no new leader shall know it either. Jobs that run have their graph."""
        known = [Flow.FromString(raw).name for raw in self._hub.flows()]
        if request.name not in known:
            await refuse_with(context, unknown_flow(request.name, known))
        try:
            versions = await self._registry.remove_flow(request.name)
        except OmniFlowError as error:
            await refuse_with(context, error)
        self._hub.drop_flow(request.name)
        return c.UnregisterFlowResponse(versions=versions)

    async def Drain(self, request: c.DrainRequest, context: Context) -> c.DrainResponse:  # noqa: N802
        """Answers at once: the number falls to 0 in `Status`, and the worker leaves.

        What it has not finished after `timeout_ms` goes on elsewhere.
        """
        await self._require(request.worker, context)
        return c.DrainResponse(outstanding=self._hub.drain_worker(request.worker, request.timeout_ms))

    async def Memory(self, request: c.MemoryRequest, context: Context) -> c.ClusterMemory:  # noqa: N802
        """Of all workers, or of the one that is named."""
        if request.worker:
            await self._require(request.worker, context)
        status = self._status()
        asked = [worker.info for worker in status.workers if request.worker in ("", worker.info.name)]
        return await memory_of(asked, status.cluster, self._tls)

    async def _require(self, worker: str, context: Context) -> None:
        """Refuses a name that no worker has."""
        known = sorted(each.info.name for each in self._status().workers)
        if worker not in known:
            await refuse_with(
                context,
                InvalidArgument(
                    f"no worker is called {worker!r}",
                    field="worker",
                    cure=f"name one of: {', '.join(known) or '(no worker is there)'}",
                ),
            )

    async def _register(self, flow: Flow) -> c.RegisterFlowResponse:
        """Into the registry first: no job may run a flow that a new leader would not know."""
        if not flow.name or "/" in flow.name:
            raise BadFlow(
                f"{flow.name!r} is no name of a flow", field="flow.name", cure="use letters, digits, '_', '.'"
            )
        require_valid(flow)
        flow.version = flow_version(flow.SerializeToString())
        stored = await self._registry.put_flow(flow)
        version, existed = self._hub.put_flow(flow.SerializeToString())
        return c.RegisterFlowResponse(version=version, existed=existed and stored)

    async def _older(self, name: str, version: bytes, context: Context) -> list[Flow]:
        """Only the registry lists versions that are not the newest."""
        try:
            flows = await self._registry.flows()
        except OmniFlowError as error:
            await refuse_with(context, error)
        return [flow for flow in flows if (flow.name, flow.version) == (name, version)]

    def _status(self) -> c.ClusterStatus:
        status = c.ClusterStatus.FromString(self._hub.cluster_status())
        status.version = status.version or __version__
        status.registry_reachable = self._follower.reachable
        status.uptime_ms = int((time.monotonic() - self._started) * 1000)
        return status
