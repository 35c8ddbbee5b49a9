"""A worker's entry in the registry, for as long as the worker lives."""

import logging
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.endpoints import parse_endpoints
from omniflow.registry.errors import NameTaken, RegistryUnreachable
from omniflow.registry.held_key import HeldKey, KeyState
from omniflow.registry.keys import Keys, process_is_gone
from omniflow.registry.requests import Created, KeyValue
from omniflow.v1.cluster_pb2 import WorkerInfo

log = logging.getLogger(__name__)

DEFAULT_TTL = 10.0


class Registration:
    """Registers a worker under `/omniflow/<cluster>/workers/<name>` and keeps it there from a thread of its own.

    `start()` blocks until the worker is registered. A lost registration is made again without being asked. `close()`
    deregisters. All methods may be called from any thread; `start` and `close` block, so call them off an event loop.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        cluster: str,
        info: WorkerInfo,
        *,
        ttl: float = DEFAULT_TTL,
        on_taken: Callable[[NameTaken], None] | None = None,
    ) -> None:
        """`ttl`: seconds until a worker that died is gone from the registry. Set `info.host` with `this_host()`, so
        that a restarted worker takes its dead predecessor's name over at once.

        `on_taken` is called in the keeper's thread when, after a loss, another living process has the name.
        """
        if not info.name or not info.incarnation:
            raise ValueError("WorkerInfo.name and .incarnation must be set: they say who is registered")
        self._endpoints = parse_endpoints(endpoints)
        self._claim = _WorkerClaim(cluster, info, on_taken)
        self._ttl = ttl
        self._key = HeldKey(self._endpoints, self._claim, ttl)

    @property
    def registered(self) -> bool:
        return self._key.state is KeyState.HELD

    @property
    def reachable(self) -> bool:
        """Whether etcd answered when last asked."""
        return self._key.reachable

    def start(self, timeout: float = 15.0) -> None:
        """Returns once registered. Raises `NameTaken` (a living holder is recognised within a third of its ttl), or
        `RegistryUnreachable` when etcd did not answer in `timeout` seconds. Keep `timeout` over `ttl`: the entry of a
        predecessor that died on another host goes only then."""
        self._key.start()
        until = time.monotonic() + timeout
        with self._key.changed:
            while self._key.state not in {KeyState.HELD, KeyState.TAKEN}:
                left = until - time.monotonic()
                if left <= 0 or not self._key.changed.wait(left):
                    break
            state, holder, failure = self._key.state, self._key.holder, self._key.failure
        if state is KeyState.HELD:
            return
        self.close()
        if state in {KeyState.TAKEN, KeyState.CONTENDED}:
            raise self._claim.name_taken(holder)
        raise failure or RegistryUnreachable(self._endpoints, "registering", f"no answer in {timeout:.0f} s")

    def wait_registered(self, timeout: float) -> bool:
        """Whether the worker is registered, waiting up to `timeout` seconds for it."""
        with self._key.changed:
            return self._key.changed.wait_for(lambda: self.registered, timeout)

    def update(self, info: WorkerInfo) -> None:
        """Registers changed information of the same name and incarnation."""
        self._claim.replace(info)
        self._key.rewrite()

    def close(self) -> None:
        """Deregisters. Does nothing the second time."""
        self._key.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _WorkerClaim:
    """A worker's name: held by one incarnation."""

    def __init__(self, cluster: str, info: WorkerInfo, on_taken: Callable[[NameTaken], None] | None) -> None:
        self.key = Keys(cluster).worker(info.name)
        self._cluster = cluster
        self._name = info.name
        self._incarnation = info.incarnation
        self._value = info.SerializeToString()
        self._on_taken = on_taken

    def replace(self, info: WorkerInfo) -> None:
        if (info.name, info.incarnation) != (self._name, self._incarnation):
            raise ValueError("a registration's name and incarnation never change: close it and make another one")
        self._value = info.SerializeToString()

    def value(self) -> bytes:
        return self._value

    def create(self, etcd: BlockingEtcd, lease: int) -> Created:
        return etcd.create_if_absent(self.key, self._value, lease)

    def is_mine(self, value: bytes) -> bool:
        return WorkerInfo.FromString(value).incarnation == self._incarnation

    def is_dead(self, value: bytes) -> bool:
        holder = WorkerInfo.FromString(value)
        return process_is_gone(holder.host, holder.pid)

    def held(self, etcd: BlockingEtcd, revision: int) -> bool:
        log.info("worker %s registered at revision %d", self._name, revision)
        return True

    def taken(self, holder: KeyValue) -> bool:
        error = self.name_taken(holder)
        log.error("%s", error)
        if self._on_taken is not None:
            self._on_taken(error)
        return True

    def name_taken(self, holder: KeyValue | None) -> NameTaken:
        if holder is None:
            return NameTaken(self._cluster, self._name, "a process whose lease has not run out")
        info = WorkerInfo.FromString(holder.value)
        return NameTaken(self._cluster, self._name, f"incarnation {info.incarnation} (pid {info.pid} on {info.host})")
