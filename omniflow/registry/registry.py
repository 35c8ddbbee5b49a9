"""What a cluster's processes and clients look up in etcd."""

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from omniflow.registry.connection import AsyncEtcd
from omniflow.registry.election import Leader
from omniflow.registry.endpoints import parse_endpoints
from omniflow.registry.errors import NoLeader, RegistryUnreachable
from omniflow.registry.keys import Keys
from omniflow.registry.requests import KeyValue
from omniflow.registry.watch import Put, Watch
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.flow_pb2 import Flow


class Registry:
    """One cluster's part of etcd. Belongs to the event loop it is first used on; close it there.

    Calls raise `RegistryUnreachable` after `timeout` seconds for each endpoint; watches never do.
    """

    def __init__(self, endpoints: str | Sequence[str], cluster: str, *, timeout: float = 5.0) -> None:
        self._keys = Keys(cluster)
        self._etcd = AsyncEtcd(parse_endpoints(endpoints), timeout)

    async def workers(self) -> dict[str, WorkerInfo]:
        """Registered workers by name."""
        listing = await self._etcd.list_prefix(self._keys.workers)
        infos = (WorkerInfo.FromString(item.value) for item in listing.items)
        return {info.name: info for info in infos}

    def watch_workers(self) -> Watch[WorkerInfo]:
        """Events named after the worker."""
        return Watch(self._etcd, self._keys.workers, WorkerInfo.FromString)

    async def flows(self) -> list[Flow]:
        """Every version of every flow, in order of their latest registration, so that the newest of a name is last."""
        listing = await self._etcd.list_prefix(self._keys.flows)
        return [Flow.FromString(item.value) for item in sorted(listing.items, key=_age)]

    def watch_flows(self) -> Watch[Flow]:
        """Events named `<flow>/<version in hex>`."""
        return Watch(self._etcd, self._keys.flows, Flow.FromString)

    async def put_flow(self, flow: Flow) -> bool:
        """Stores a flow under its name and version, and makes it the newest of its name.

        Whether that version was there already: then it is written again, so that the order of registration is kept.
        """
        if not flow.name or not flow.version:
            raise ValueError("a flow is stored by name and version: both must be set")
        key = self._keys.flow(flow.name, flow.version)
        serialized = flow.SerializeToString(deterministic=True)
        if (await self._etcd.create_if_absent(key, serialized)).holder is None:
            return False
        await self._etcd.put(key, serialized)
        return True

    async def remove_flow(self, name: str) -> int:
        """Forgets every version of a flow. How many there were."""
        return await self._etcd.delete_prefix(self._keys.flow_versions(name))

    async def leader(self) -> Leader | None:
        """The scheduler that leads, or None."""
        found = await self._etcd.get(self._keys.leader)
        return Leader.decode(found) if found else None

    async def wait_leader(self, within: float = 15.0) -> Leader:
        """The leader, as soon as there is one. Raises `NoLeader`, or `RegistryUnreachable` when etcd was away all
        along, after `within` seconds."""
        started = time.monotonic()
        watch = Watch(self._etcd, self._keys.leader, bytes)
        try:
            async with asyncio.timeout(within):
                async for event in watch:
                    if isinstance(event, Put) and (leader := await self.leader()):
                        return leader
        except TimeoutError:
            pass
        waited = time.monotonic() - started
        if watch.synced.is_set():
            raise NoLeader(self._keys.cluster, waited)
        raise RegistryUnreachable(self._etcd.endpoints, "finding the scheduler", f"no answer in {waited:.1f} s")

    async def close(self) -> None:
        await self._etcd.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _age(item: KeyValue) -> int:
    return item.mod_revision
