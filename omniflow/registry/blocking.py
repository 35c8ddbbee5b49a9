"""A blocking connection to etcd, for the threads that keep leases alive."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import grpc
from aetcd import rpc

from omniflow.registry import requests
from omniflow.registry.endpoints import CHANNEL_OPTIONS
from omniflow.registry.errors import RegistryUnreachable
from omniflow.registry.requests import Created, KeyValue, Unchanged

LEASE_GONE = 0


class BlockingEtcd:
    """Every call has a deadline. Endpoints are tried in turn; when none answers, `RegistryUnreachable`."""

    def __init__(self, endpoints: Sequence[str], timeout: float) -> None:
        self._endpoints = tuple(endpoints)
        self._timeout = timeout
        self._current = 0
        self._channel = self._open()

    def _open(self) -> grpc.Channel:
        return grpc.insecure_channel(self._endpoints[self._current], options=CHANNEL_OPTIONS)

    def close(self) -> None:
        self._channel.close()

    def create_if_absent(
        self,
        key: str,
        value: bytes,
        lease: int,
        *,
        guards: Sequence[Unchanged] = (),
        puts: Mapping[str, bytes] | None = None,
    ) -> Created:
        request = requests.create_if_absent(key, value, lease, guards=guards, puts=puts)
        return requests.created(self._call("creating a key", lambda c: rpc.KVStub(c).Txn, request))

    def replace_if_unchanged(self, held: KeyValue, value: bytes, lease: int) -> int | None:
        """The new revision, or None when somebody else was quicker."""
        request = requests.replace_if_unchanged(held, value, lease)
        response = self._call("replacing a key", lambda c: rpc.KVStub(c).Txn, request)
        return int(response.header.revision) if response.succeeded else None

    def put_if_unchanged(self, puts: Mapping[str, bytes], guards: Sequence[Unchanged]) -> bool:
        """Whether the guards held, so that everything was written."""
        request = requests.put_if_unchanged(puts, guards)
        return bool(self._call("writing keys", lambda c: rpc.KVStub(c).Txn, request).succeeded)

    def look(self, key: str) -> Created:
        """Who holds the key."""
        return requests.looked(self._call("reading a key", lambda c: rpc.KVStub(c).Range, requests.get(key)))

    def put(self, key: str, value: bytes, lease: int) -> None:
        self._call("writing a key", lambda c: rpc.KVStub(c).Put, requests.put(key, value, lease))

    def is_held(self, key: str, lease: int) -> bool:
        return bool(self._call("reading a key", lambda c: rpc.KVStub(c).Txn, requests.is_held(key, lease)).succeeded)

    def get(self, key: str) -> KeyValue | None:
        found = self._call("reading a key", lambda c: rpc.KVStub(c).Range, requests.get(key)).kvs
        return requests.key_value(found[0]) if found else None

    def grant(self, seconds: int) -> int:
        return int(self._call("granting a lease", lambda c: rpc.LeaseStub(c).LeaseGrant, requests.grant(seconds)).ID)

    def keep_alive(self, lease: int) -> int:
        """Seconds that the lease has again; `LEASE_GONE` when it has expired or was revoked."""

        return int(self._call("keeping a lease alive", _one_keep_alive, requests.keep_alive(lease)).TTL)

    def remaining(self, lease: int) -> int:
        """Whole seconds to the end of the lease; negative when it is gone."""
        call = "reading a lease"
        return int(self._call(call, lambda c: rpc.LeaseStub(c).LeaseTimeToLive, requests.time_to_live(lease)).TTL)

    def revoke(self, lease: int) -> None:
        """Ends the lease and deletes its keys. One that is gone already is fine."""
        try:
            self._call("revoking a lease", lambda c: rpc.LeaseStub(c).LeaseRevoke, requests.revoke(lease))
        except grpc.RpcError as error:
            if _code(error) is not grpc.StatusCode.NOT_FOUND:
                raise

    def wait_change(self, key: str, after: int, timeout: float) -> None:
        """Returns when the key changed after the revision, or after `timeout` seconds."""
        outgoing: SimpleQueue[Any] = SimpleQueue()
        outgoing.put(requests.watch(key, b"", after + 1))
        call = rpc.WatchStub(self._channel).Watch(_until_none(outgoing), timeout=timeout)
        try:
            for response in call:
                if response.events or response.canceled:
                    return
        except grpc.RpcError as error:
            # etcd sees the deadline too, and may be quicker to say so in words of its own.
            if _code(error) not in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN}:
                raise RegistryUnreachable(self._endpoints, "watching a key", _words(error)) from None
        finally:
            call.cancel()
            outgoing.put(None)

    def _call(self, doing: str, method: Callable[[grpc.Channel], Callable[..., Any]], request: Any) -> Any:
        for attempt in range(len(self._endpoints)):
            try:
                return method(self._channel)(request, timeout=self._timeout)
            except grpc.RpcError as error:
                if not is_unreachable(_code(error)):
                    raise
                self._next_endpoint()
                if attempt + 1 == len(self._endpoints):
                    raise RegistryUnreachable(self._endpoints, doing, _words(error)) from None
        raise AssertionError("there is at least one endpoint")

    def _next_endpoint(self) -> None:
        if len(self._endpoints) > 1:
            self._channel.close()
            self._current = (self._current + 1) % len(self._endpoints)
            self._channel = self._open()


def _one_keep_alive(channel: grpc.Channel) -> Callable[..., Any]:
    def send(request: Any, timeout: float) -> Any:
        call = rpc.LeaseStub(channel).LeaseKeepAlive(iter([request]), timeout=timeout)
        try:
            return next(call)
        finally:
            call.cancel()

    return send


def is_unreachable(code: grpc.StatusCode | None) -> bool:
    """Answers that mean: etcd cannot serve anybody now. UNKNOWN is what 3.5 says while it has no leader or stops."""
    return code in {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
    }


def _until_none(queue: "SimpleQueue[Any]") -> Iterator[Any]:
    while (item := queue.get()) is not None:
        yield item


def _code(error: grpc.RpcError) -> grpc.StatusCode | None:
    return error.code() if isinstance(error, grpc.Call) else None


def _words(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):
        return str(error)
    code = error.code()
    return f"{code.name if code else 'no status'}, {error.details()}"
