"""Addresses that mean "every address of this machine": fit to listen on, and nothing that others can dial."""

WILDCARDS = frozenset({"0.0.0.0", "::", "[::]", "*"})  # noqa: S104 compared, not bound


def is_wildcard(host: str) -> bool:
    """Whether `host`, with or without brackets, stands for every address."""
    return host in WILDCARDS


def host_of(address: str) -> str:
    """The host of HOST:PORT or tcp:HOST:PORT, as it is written there."""
    return address.removeprefix("tcp:").rpartition(":")[0]


def check_journal_listen(listen: str, advertise: str | None) -> None:
    """Where a standby follows the journal has to be something that it can dial. Raises ValueError."""
    if not listen.startswith("tcp:"):
        return
    if listen.endswith(":0"):
        raise ValueError(
            f"'journal_listen' is {listen}, and nobody would know the port; name one, e.g. tcp:0.0.0.0:7072"
        )
    if is_wildcard(host_of(listen)) and not advertise:
        raise ValueError(
            f"'journal_listen' is {listen}, which the other scheduler cannot dial; add 'advertise', by which other "
            "machines reach this one"
        )


def join(host: str, port: int | str) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
