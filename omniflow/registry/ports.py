"""Which ports of this machine are free."""

import itertools
import random
import socket
from collections.abc import Container, Iterator

# Below the ports that the system gives to connections and to listeners that ask for any (from 32,768 on): one of those
# could be gone again before the process listens that it was chosen for.
_CHOICE = range(20_000, 32_000)
_TRIES = 100


def free_port(host: str) -> int:
    """A port of `host` that nothing listens on."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str, avoid: Container[int] = ()) -> list[int]:
    """Different ones: all are held until all are chosen. Raises OSError when there are none.

    `avoid`: nobody listens there yet, but somebody will.
    """
    probes: list[socket.socket] = []
    try:
        for port in (port for port in _candidates() if port not in avoid):
            probe = socket.socket(_family(host), socket.SOCK_STREAM)
            probes.append(probe)
            try:
                probe.bind((host, port))
            except OSError:
                probes.pop().close()
                if port == 0:
                    raise
            if len(probes) == count:
                break
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _candidates() -> Iterator[int]:
    """Ports to try; in the end whatever the system has."""
    return itertools.chain(random.SystemRandom().sample(_CHOICE, _TRIES), itertools.repeat(0))


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
