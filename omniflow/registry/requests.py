"""Requests to etcd and what comes back, typed. Pure: used by the blocking and by the asyncio connection alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aetcd import rpc


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as etcd has it. `lease` is 0 when the key has none."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The keys under a prefix, and the revision at which this was so."""

    items: tuple[KeyValue, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Created:
    """What `create_if_absent` found at `revision`: the key was `made`, or somebody has it, or a guard did not hold."""

    revision: int
    holder: KeyValue | None
    made: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Holds as long as nobody has written the key since that revision (0: as long as it does not exist)."""

    key: str
    mod_revision: int

    @classmethod
    def since(cls, key: str, seen: KeyValue | None) -> "Unchanged":
        return cls(key, seen.mod_revision if seen else 0)


def key_value(raw: Any) -> KeyValue:
    return KeyValue(raw.key.decode(), raw.value, raw.create_revision, raw.mod_revision, raw.lease)


def prefix_end(prefix: str) -> bytes:
    """The first key behind all those that start with `prefix` (ASCII: its last byte can always be raised)."""
    encoded = prefix.encode()
    return encoded[:-1] + bytes([encoded[-1] + 1])


def get(key: str) -> Any:
    return rpc.RangeRequest(key=key.encode())


def list_prefix(prefix: str) -> Any:
    return rpc.RangeRequest(key=prefix.encode(), range_end=prefix_end(prefix))


def listing(response: Any) -> Listing:
    return Listing(tuple(key_value(raw) for raw in response.kvs), response.header.revision)


def put(key: str, value: bytes, lease: int = 0) -> Any:
    return rpc.PutRequest(key=key.encode(), value=value, lease=lease)


def delete_prefix(prefix: str) -> Any:
    return rpc.DeleteRangeRequest(key=prefix.encode(), range_end=prefix_end(prefix))


def create_if_absent(
    key: str, value: bytes, lease: int = 0, *, guards: Sequence[Unchanged] = (), puts: Mapping[str, bytes] | None = None
) -> Any:
    """Makes the key, and writes `puts` with it, unless it exists or a guard does not hold; then says who holds it."""
    absent = rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.CREATE, key=key.encode(), create_revision=0)
    return rpc.TxnRequest(
        compare=[absent, *map(_unchanged, guards)],
        success=[rpc.RequestOp(request_put=put(key, value, lease)), *_puts(puts or {})],
        failure=[rpc.RequestOp(request_range=get(key))],
    )


def put_if_unchanged(puts: Mapping[str, bytes], guards: Sequence[Unchanged]) -> Any:
    """Writes all of `puts`, without a lease, or nothing where a guard does not hold."""
    return rpc.TxnRequest(compare=[_unchanged(guard) for guard in guards], success=_puts(puts))


def _unchanged(guard: Unchanged) -> Any:
    return rpc.Compare(
        result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=guard.key.encode(), mod_revision=guard.mod_revision
    )


def _puts(puts: Mapping[str, bytes]) -> list[Any]:
    return [rpc.RequestOp(request_put=put(key, value)) for key, value in puts.items()]


def looked(response: Any) -> Created:
    """Who holds a key, of a plain `get`."""
    found = response.kvs
    return Created(response.header.revision, key_value(found[0]) if found else None)


def created(response: Any) -> Created:
    if response.succeeded:
        return Created(response.header.revision, None, made=True)
    found = response.responses[0].response_range.kvs
    return Created(response.header.revision, key_value(found[0]) if found else None)


def replace_if_unchanged(held: KeyValue, value: bytes, lease: int) -> Any:
    unchanged = Unchanged.since(held.key, held)
    return rpc.TxnRequest(
        compare=[_unchanged(unchanged)], success=[rpc.RequestOp(request_put=put(held.key, value, lease))]
    )


def is_held(key: str, lease: int) -> Any:
    """Succeeds when the key exists under this lease. Nothing is written, so etcd writes nothing to disk for it."""
    under_lease = rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.LEASE, key=key.encode(), lease=lease)
    return rpc.TxnRequest(compare=[under_lease])


def grant(seconds: int) -> Any:
    return rpc.LeaseGrantRequest(TTL=seconds)


def keep_alive(lease: int) -> Any:
    return rpc.LeaseKeepAliveRequest(ID=lease)


def revoke(lease: int) -> Any:
    return rpc.LeaseRevokeRequest(ID=lease)


def time_to_live(lease: int) -> Any:
    return rpc.LeaseTimeToLiveRequest(ID=lease)


def watch(key: str, range_end: bytes, start_revision: int) -> Any:
    create = rpc.WatchCreateRequest(
        key=key.encode(), range_end=range_end, start_revision=start_revision, progress_notify=True, fragment=False
    )
    return rpc.WatchRequest(create_request=create)
