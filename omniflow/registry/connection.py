"""An asyncio connection to etcd, for those who look up and watch."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from aetcd import rpc

from omniflow.registry import requests
from omniflow.registry.blocking import is_unreachable
from omniflow.registry.endpoints import CHANNEL_OPTIONS
from omniflow.registry.errors import RegistryUnreachable
from omniflow.registry.requests import Created, KeyValue, Listing


@dataclass(frozen=True, slots=True)
class Change:
    """One change under a watched prefix. `value` is None when the key was deleted."""

    key: str
    value: bytes | None
    revision: int


class Compacted(Exception):  # noqa: N818 - what happened, not a failure
    """The revision to watch from is no longer kept: list again, and watch from there."""


class WatchBroken(Exception):  # noqa: N818
    """The stream of changes ended; go on from the last revision."""


class AsyncEtcd:
    """Every call has a deadline. Endpoints are tried in turn; when none answers, `RegistryUnreachable`."""

    def __init__(self, endpoints: Sequence[str], timeout: float) -> None:
        self.endpoints = tuple(endpoints)
        self._timeout = timeout
        self._current = 0
        self._channel: grpc.aio.Channel | None = None

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)

    async def get(self, key: str) -> KeyValue | None:
        response = await self._call("reading a key", "Range", requests.get(key))
        return requests.key_value(response.kvs[0]) if response.kvs else None

    async def list_prefix(self, prefix: str) -> Listing:
        return requests.listing(await self._call("listing keys", "Range", requests.list_prefix(prefix)))

    async def put(self, key: str, value: bytes) -> None:
        await self._call(f"writing {key}", "Put", requests.put(key, value))

    async def delete_prefix(self, prefix: str) -> int:
        """How many keys there were."""
        response = await self._call(f"deleting {prefix}", "DeleteRange", requests.delete_prefix(prefix))
        return int(response.deleted)

    async def create_if_absent(self, key: str, value: bytes) -> Created:
        return requests.created(await self._call("creating a key", "Txn", requests.create_if_absent(key, value)))

    async def watch_prefix(self, prefix: str, start_revision: int) -> AsyncIterator[list[Change]]:
        """Changes from a revision on, in batches; an empty batch says: still connected, nothing newer.

        Raises `Compacted`, or `WatchBroken` when the connection did.
        """
        call = rpc.WatchStub(self._open()).Watch()
        try:
            async with asyncio.timeout(self._timeout):
                await call.write(requests.watch(prefix, requests.prefix_end(prefix), start_revision))
            while True:
                response = await call.read()
                if not isinstance(response, rpc.WatchResponse):
                    raise WatchBroken("etcd ended the stream")
                if response.compact_revision:
                    raise Compacted
                if response.canceled:
                    raise WatchBroken(response.cancel_reason)
                yield [_change(event) for event in response.events]
        except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError) as error:
            await self._next_endpoint()
            raise WatchBroken(str(error)) from None
        finally:
            call.cancel()

    async def _call(self, doing: str, method: str, request: Any) -> Any:
        """The last endpoint is waited for: an etcd that is just being restarted is worth the whole time-out."""
        failure = "no endpoint was tried"
        for tried in range(1, len(self.endpoints) + 1):
            call = getattr(rpc.KVStub(self._open()), method)
            try:
                return await call(request, timeout=self._timeout, wait_for_ready=tried == len(self.endpoints))
            except grpc.aio.AioRpcError as error:
                if not is_unreachable(error.code()):
                    raise
                failure = f"{error.code().name}, {error.details()}"
                await self._next_endpoint()
        raise RegistryUnreachable(self.endpoints, doing, failure)

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self.endpoints[self._current], options=CHANNEL_OPTIONS)
        return self._channel

    async def _next_endpoint(self) -> None:
        if len(self.endpoints) > 1:
            await self.close()
            self._current = (self._current + 1) % len(self.endpoints)


def _change(event: Any) -> Change:
    deleted = event.type == 1
    return Change(event.kv.key.decode(), None if deleted else event.kv.value, event.kv.mod_revision)
