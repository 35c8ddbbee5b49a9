"""Ports: which is free, and who holds one that is not."""

from collections.abc import Iterable

from omniflow.config import is_wildcard
from omniflow.launch.errors import AddressInUse, LaunchError
from omniflow.registry.ports import free_port, try_listen

__all__ = ["check_free", "free_port", "reachable", "split", "with_real_ports"]


def check_free(address: str) -> None:
    """Raises `AddressInUse` naming the process that listens on host:port, where that can be seen."""
    host, port = split(address)
    try:
        try_listen(host, port)
    except PermissionError:
        raise LaunchError(f"this user may not listen on {address}", cure="choose a port above 1023") from None
    except OSError as error:
        if port and (holder := _holder(port)) is not None:
            raise AddressInUse(
                f"{address} is in use by {holder}",
                field="scheduler.listen",
                cure="end it (`omniflow down`, if it is another cluster), or set `scheduler.listen` to a free port",
            ) from None
        raise AddressInUse(
            f"cannot listen on {address}: {error.strerror or error}",
            field="scheduler.listen",
            cure="set `scheduler.listen` to an address of this machine and a free port",
        ) from None


def with_real_ports(addresses: Iterable[str]) -> tuple[str, ...]:
    """Each port 0 replaced by one that is free now, and unlike the others."""
    real: list[str] = []
    for address in addresses:
        host, port = split(address)
        taken = {split(other)[1] for other in real}
        while port == 0 or (split(address)[1] == 0 and port in taken):
            port = free_port(host)
        real.append(f"{address.rpartition(':')[0]}:{port}")
    return tuple(real)


def reachable(address: str) -> str:
    """Where a client on this machine reaches what listens on `address`."""
    host, port = split(address)
    return f"127.0.0.1:{port}" if is_wildcard(host) else address


def split(address: str) -> tuple[str, int]:
    """Host (without brackets) and port of host:port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _holder(port: int) -> str | None:
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return "another process"
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port:
            try:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
            except psutil.Error:
                return "another process"
    return None
