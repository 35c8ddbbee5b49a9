"""Who is there to borrow from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from omniflow.registry import Put, Registry
from omniflow.v1.cluster_pb2 import WorkerInfo


class Directory(Protocol):
    """Registered workers, as last known. Safe to use from any thread."""

    def workers(self) -> Mapping[str, WorkerInfo]:
        """By name; not to be changed."""

    def close(self) -> None: ...


class FixedDirectory:
    """Those that it was told of."""

    def __init__(self, *workers: WorkerInfo) -> None:
        self._workers = {info.name: info for info in workers}

    def put(self, info: WorkerInfo) -> None:
        """New, or changed."""
        self._workers = {**self._workers, info.name: info}

    def workers(self) -> Mapping[str, WorkerInfo]:
        return self._workers

    def close(self) -> None:
        """Nothing to do."""


class EtcdDirectory:
    """Follows the registry on a thread of its own. While etcd is away it stays as it was last seen."""

    def __init__(self, endpoints: Sequence[str], cluster: str) -> None:
        self._endpoints = endpoints
        self._cluster = cluster
        self._workers: dict[str, WorkerInfo] = {}
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="data-directory", daemon=True)
        self._thread.start()

    def workers(self) -> Mapping[str, WorkerInfo]:
        return self._workers

    def close(self) -> None:
        """Ends the watch."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._follow_until_stopped())
        finally:
            self._loop.close()

    async def _follow_until_stopped(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._follow())
            await self._stop.wait()
            following.cancel()

    async def _follow(self) -> None:
        async with Registry(self._endpoints, self._cluster) as registry:
            async for event in registry.watch_workers():
                workers = dict(self._workers)
                if isinstance(event, Put):
                    workers[event.name] = event.value
                else:
                    workers.pop(event.name, None)
                self._workers = workers  # whoever looks has a whole one


def serving(info: WorkerInfo, model: str, layout: str) -> int:
    """How many roles of the worker have pages of that model and layout; 0 without a data service."""
    if not info.data_addresses:
        return 0
    return sum(role.weights_fingerprint == model and role.page_layout.description == layout for role in info.roles)
