"""Addresses that mean "every address of this machine": fit to listen on, and nothing that others can dial."""

WILDCARDS = frozenset({"0.0.0.0", "::", "[::]", "*"})  # noqa: S104 compared, not bound


def is_wildcard(host: str) -> bool:
    """Whether `host`, with or without brackets, stands for every address."""
    return host in WILDCARDS


def host_of(address: str) -> str:
    """The host of HOST:PORT or tcp:HOST:PORT, as it is written there."""
    return address.removeprefix("tcp:").rpartition(":")[0]


def join(host: str, port: int | str) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
