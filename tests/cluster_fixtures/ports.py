"""Ports that tests choose for what they start later."""

import os
import random
import zlib

from omniflow.registry.ports import is_free

# Not those that the product chooses from, nor those of the system: until somebody listens there, nobody else does.
_CHOICE = range(10_000, 20_000)
_PROCESSES = 8
"""Each process of a test run has ports of its own."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port of `host` that nothing listens on, and that no other test process is given."""
    mine = zlib.crc32(os.environ.get("PYTEST_XDIST_WORKER", "").encode()) % _PROCESSES
    while True:
        port = random.SystemRandom().choice(_CHOICE[mine::_PROCESSES])
        if is_free(host, port):
            return port
