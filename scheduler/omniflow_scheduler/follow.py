"""What the registry shows, told to the hub: workers that come and go, flows that become known."""

import asyncio
import logging
from typing import NoReturn

from omniflow.errors import OmniFlowError
from omniflow.registry import Put, Registry
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.flow_pb2 import Flow
from omniflow_core import CoreError, Hub
from omniflow_scheduler.flow_check import require_valid

log = logging.getLogger(__name__)


class RegistryFollower:
    """Runs for as long as the scheduler leads. Without etcd the hub keeps the last known view."""

    def __init__(self, hub: Hub, registry: Registry) -> None:
        self._hub = hub
        self._workers = registry.watch_workers()
        self._flows = registry.watch_flows()

    @property
    def reachable(self) -> bool:
        """Whether etcd is there, as far as the watches know."""
        return self._workers.reachable

    async def wait_synced(self, within: float) -> bool:
        """Whether the first view is complete, waiting up to `within` seconds for it."""
        try:
            async with asyncio.timeout(within):
                await self._flows.synced.wait()
                await self._workers.synced.wait()
        except TimeoutError:
            return False
        self._drop_unregistered()
        return True

    async def follow_workers(self) -> NoReturn:
        async for event in self._workers:
            if isinstance(event, Put):
                log.info("worker %s is registered: incarnation %s", event.name, event.value.incarnation)
                self._tell_worker(event.value)
            else:
                log.info("worker %s is no longer registered", event.name)
                self._hub.worker_gone(event.last.name, event.last.incarnation)
        raise AssertionError("a watch has no end")

    def _tell_worker(self, info: WorkerInfo) -> None:
        try:
            self._hub.worker_seen(info.SerializeToString())
        except CoreError as error:
            log.error("worker %s is registered with what cannot be used: %s", info.name, error)

    async def follow_flows(self) -> NoReturn:
        """A flow that does not validate (one of a later version) is passed over; the others serve."""
        async for event in self._flows:
            if not isinstance(event, Put):
                self._drop(event.last.name)
                continue
            try:
                require_valid(event.value)
                self._hub.put_flow(event.value.SerializeToString())
            except (OmniFlowError, CoreError) as error:
                log.error("flow %s in the registry is not usable: %s", event.name, error)
        raise AssertionError("a watch has no end")

    def _drop(self, name: str) -> None:
        """The last version of a flow is gone."""
        if not any(flow.name == name for flow in self._flows.view.values()):
            self._hub.drop_flow(name)

    def _drop_unregistered(self) -> None:
        """The journal brings back the flows of its jobs, also of those that were unregistered meanwhile."""
        for raw in self._hub.flows():
            self._drop(Flow.FromString(raw).name)
