"""The operator's etcd endpoints, and the options of every channel to them."""

from collections.abc import Sequence

# A dead peer is found in 15 s. etcd refuses clients that ping more often than every 5 s. Reconnects back off to 2 s, so
# that a returning etcd is found at once and an absent one costs nothing to speak of.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # A proxy of the environment is for the world outside, never for the registry.
    ("grpc.enable_http_proxy", 0),
    # Channels to the same target must not share one connection's back-off across unrelated users.
    ("grpc.use_local_subchannel_pool", 1),
)


def parse_endpoints(endpoints: str | Sequence[str]) -> tuple[str, ...]:
    """`"a:2379,b:2379"` or a list of such, with or without `http://`. Raises `ValueError` naming a wrong one."""
    given = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
    parsed = tuple(_parse(item.strip()) for item in given if item.strip())
    if not parsed:
        raise ValueError("no etcd endpoint is given: name at least one as HOST:PORT")
    return parsed


def _parse(endpoint: str) -> str:
    if endpoint.startswith("https://"):
        raise ValueError(f"etcd endpoint {endpoint!r}: TLS to etcd is not supported yet, name it as HOST:PORT")
    bare = endpoint.removeprefix("http://").rstrip("/")
    host, colon, port = bare.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"etcd endpoint {endpoint!r} is not HOST:PORT")
    return bare
