"""What a worker registers of the addresses that it listens on."""

from collections.abc import Sequence

from omniflow.config import host_of, is_wildcard, join
from omniflow.errors import InvalidArgument


def advertised(addresses: Sequence[str], host: str | None) -> list[str]:
    """`addresses` (unix:PATH or tcp:HOST:PORT), with `host` for wildcards. Raises InvalidArgument for one without."""
    return [_advertised(address, host) for address in addresses]


def _advertised(address: str, host: str | None) -> str:
    if not (address.startswith("tcp:") and is_wildcard(host_of(address))):
        return address
    if host is None:
        raise InvalidArgument(
            f"{address} is every address of this machine, and none that another one can dial",
            field="advertise",
            cure="set `advertise` to the host name or address that other machines reach this one by",
        )
    return f"tcp:{join(host, address.rpartition(':')[2])}"
