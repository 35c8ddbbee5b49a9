"""The stores in which two processes find each other for a process group."""

from __future__ import annotations

import datetime
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from omniflow.config import is_wildcard
from omniflow_workers.transfer.errors import PullFailed

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

LOOPBACK = "127.0.0.1"
_READY = "ready"
_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02


class StoreHome:
    """The owner's TCPStore. It is there while somebody uses it: what groups leave in it goes with it."""

    def __init__(self, host: str) -> None:
        """`host`: the address that it listens on; empty: all of them."""
        self.host = LOOPBACK if not host or is_wildcard(host) else host
        """By which this process reaches it."""
        self._bound = host
        self._lock = threading.Lock()
        self._users = 0
        self._server: Store | None = None
        self._port = 0

    def enter(self) -> int:
        """One more user; the port. Raises `OSError`."""
        with self._lock:
            if self._server is None:
                self._server, self._port = _serve(self._bound)
            self._users += 1
            return self._port

    def reached_by(self, host: str) -> str:
        """By which address somebody who reached this process by `host` finds the store."""
        return host if host and self._bound != self.host else self.host

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._server = None


def join_store(host: str, port: int, prefix: str, patience: float) -> Store:
    """A connection of its own to a store: who waits in it keeps nobody else waiting. Raises `PullFailed`."""
    from torch._C import _distributed_c10d as c10d

    within = datetime.timedelta(seconds=patience)
    try:
        client = c10d.TCPStore(host, port, None, False, within, False)
    except RuntimeError as error:
        raise PullFailed(
            f"the other worker's store at {host}:{port} cannot be reached", cause=str(error)[:300]
        ) from error
    return c10d.PrefixStore(prefix, client)


def say_ready(store: Store) -> None:
    """The borrower's last word before it makes its end of the group."""
    store.set(_READY, "")


def await_ready(store: Store, goes_on: Callable[[], bool], patience: float) -> None:
    """The owner waits for that: who waits in a group's making cannot be told that the other one has died.

    Raises `PullFailed` after `patience` seconds, or as soon as it does not go on.
    """
    until = time.monotonic() + patience
    pause = _FIRST_PAUSE_S
    while not store.check([_READY]):
        if time.monotonic() > until or not goes_on():
            raise PullFailed("the borrower does not come to the process group")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _serve(host: str) -> tuple[Store, int]:
    from torch._C import _distributed_c10d as c10d

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    port = int(listener.getsockname()[1])
    server = c10d.TCPStore(
        host or LOOPBACK, port, None, True, datetime.timedelta(seconds=60), False, False, listener.detach()
    )
    return server, port
