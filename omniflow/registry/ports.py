"""Which ports of this machine are free."""

import socket


def free_port(host: str) -> int:
    """A port of `host` that nothing listens on."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str) -> list[int]:
    """Different ones: all are held until all are chosen."""
    probes = [socket.socket(_family(host), socket.SOCK_STREAM) for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((host, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def try_listen(host: str, port: int) -> None:
    """Raises OSError, with the system's reason, when nobody could listen on it now."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        # A connection of an earlier run in TIME_WAIT is no obstacle. SO_REUSEPORT is: gRPC sets it, and two servers
        # would share the port without a word.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def is_free(host: str, port: int) -> bool:
    """Whether something could listen on it now."""
    try:
        try_listen(host, port)
    except OSError:
        return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
