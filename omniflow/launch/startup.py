"""What it means that a cluster has started. The supervisor knows processes only; this knows what they serve."""

import asyncio
from typing import Protocol

from omniflow.launch.errors import StartFailed
from omniflow.launch.plan import Plan

_REGISTRY_PATIENCE_S = 5.0
_SCHEDULER_PATIENCE_S = 5.0


class Startup(Protocol):
    """The steps of a start. Each returns when it is done; the supervisor watches over time and dying processes."""

    async def registry_ready(self, plan: Plan) -> None:
        """etcd answers; the embedded one knows nobody of an earlier run. Raises `OmniFlowError` for the operator's."""

    async def scheduler_ready(self, plan: Plan) -> None:
        """The scheduler serves; of two the one that leads, and the other stands by."""

    async def workers_ready(self, plan: Plan) -> None:
        """Every worker of the file is linked to the scheduler."""

    async def flows_registered(self, plan: Plan) -> None:
        """The file's flows are known to the cluster. Raises `OmniFlowError` where one does not fit."""

    async def unserved(self, plan: Plan) -> list[str]:
        """A remark on each role that flows of the file use and no worker serves."""

    async def laggards(self, plan: Plan) -> list[str]:
        """After a time-out: the processes that are not ready."""


class ClusterStartup:
    """The steps against the real services."""

    def __init__(self, flows: list[bytes]) -> None:
        """`flows`: the compiled flows of the file, serialized."""
        self._flows = flows

    async def registry_ready(self, plan: Plan) -> None:
        from omniflow.launch.etcd import until_healthy
        from omniflow.registry.health import forget_registrations

        if plan.etcd is None:
            await _operators_etcd(plan)
            return
        await until_healthy(plan.etcd_endpoints[0])
        await asyncio.to_thread(forget_registrations, plan.etcd_endpoints[0])

    async def scheduler_ready(self, plan: Plan) -> None:
        from omniflow.launch.readiness import open_channel, until_listening

        async with open_channel(plan.addresses):
            for address in plan.addresses:
                await until_listening(address)

    async def workers_ready(self, plan: Plan) -> None:
        from omniflow.launch.readiness import open_channel, until_workers_ready

        async with open_channel(plan.addresses) as channel:
            await until_workers_ready(channel, plan.config.worker_names)

    async def flows_registered(self, plan: Plan) -> None:
        from omniflow.launch.readiness import open_channel, register_flow

        async with open_channel(plan.addresses) as channel:
            for flow in self._flows:
                await register_flow(channel, flow)

    async def unserved(self, plan: Plan) -> list[str]:
        import grpc.aio

        from omniflow.launch.readiness import open_channel, served_roles
        from omniflow.v1.flow_pb2 import Flow

        async with open_channel(plan.addresses) as channel:
            try:
                served = await served_roles(channel)
            except grpc.aio.AioRpcError:
                return []  # it is a remark only
        users: dict[str, list[str]] = {}
        for flow in map(Flow.FromString, self._flows):
            for role in sorted({node.role for node in flow.nodes if node.role} - served):
                users.setdefault(role, []).append(f"`{flow.name}`")
        return [
            f"warning: no worker serves role `{role}`, so that no job of {' or '.join(flows)} can run: "
            "add it to the `roles` of a worker in the cluster file, or start one elsewhere"
            for role, flows in users.items()
        ]

    async def laggards(self, plan: Plan) -> list[str]:
        import grpc.aio

        from omniflow.launch.readiness import missing_workers, open_channel

        try:
            async with asyncio.timeout(_SCHEDULER_PATIENCE_S), open_channel(plan.addresses) as channel:
                return await missing_workers(channel, plan.config.worker_names)
        except (grpc.aio.AioRpcError, TimeoutError):
            return list(plan.config.scheduler_names)


async def _operators_etcd(plan: Plan) -> None:
    """It should be there already: what is wrong with it is told before anything is started that needs it."""
    from omniflow.registry import Registry, RegistryUnreachable

    patience_s = min(_REGISTRY_PATIENCE_S, plan.config.start_timeout_s / 2)
    try:
        async with Registry(plan.etcd_endpoints, plan.config.cluster, timeout=patience_s) as registry:
            await registry.leader()
    except RegistryUnreachable as error:
        raise StartFailed(error.message, field=error.field, cause=error.cause, cure=error.cure) from None
