"""The data service of a worker: lends its engines' pages to others, over Unix and TCP sockets."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Sequence

from omniflow.config import TLS_CURE, TlsConfig
from omniflow.data import Framed, host_and_port, is_ours, is_unix, server_context, unix_name
from omniflow.errors import InvalidArgument
from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_workers.transfer.base import FillAccount, PageSource
from omniflow_workers.transfer.identity import Identity
from omniflow_workers.transfer.lender import Lender
from omniflow_workers.transfer.lending import LendingLimits
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.served import House, Served
from omniflow_workers.transfer.store import StoreHome

log = logging.getLogger(__name__)

_BACKLOG = 128
_RETRY_S = 0.2
_CLOSE_S = 15.0
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
"""A borrower whose host is gone is noticed in half a minute; its leases expire before."""


class DataService:
    """Listens once constructed. `close` ends all that others hold."""

    def __init__(
        self,
        me: Identity,
        sources: Sequence[PageSource],
        listen: Sequence[str] = (),
        *,
        tls: TlsConfig | None = None,
        account: Sequence[FillAccount] = (),
        limits: TransferLimits | None = None,
        lending: LendingLimits | None = None,
    ) -> None:
        """`listen`: "tcp:HOST:PORT" (port 0: any), beside a Unix socket without a file, which is always there. `tls`:
        for TCP. `account`: who else writes in the account of this worker's memory.

        Raises `InvalidArgument` for an address that it cannot listen on, or certificates that do not fit.
        """
        limits = limits or TransferLimits()
        self._me = me
        self._fillers = list(account)
        self._context = _context(tls) if tls is not None else None
        self._patience = limits.answer_s
        self._lock = threading.Lock()
        self._open: dict[Served, threading.Thread] = {}
        self._closing = False
        self._listeners = _bind_all(["unix:@omniflow-data/" + secrets.token_hex(12), *listen])
        self.addresses = [address for address, _ in self._listeners]
        """With real port numbers: what to register."""
        lender = Lender(sources, limits.max_lease_s, lending)
        self._house = House(me, lender, StoreHome(_store_host(self.addresses)), limits, self._fill)
        self._most = (lending or LendingLimits()).connections + 16
        self._threads = [
            threading.Thread(target=self._accept, args=(listener, is_unix(address)), name="data-accept", daemon=True)
            for address, listener in self._listeners
        ]
        for thread in self._threads:
            thread.start()

    def account(self) -> MemoryAccount:
        """Where the bytes of this worker are."""
        account = MemoryAccount()
        self._fill(account)
        return account

    def add_account(self, fill: FillAccount) -> None:
        """One more who writes in it."""
        self._fillers.append(fill)

    def check(self) -> None:
        """Raises AssertionError for a broken invariant of the book of leases."""
        self._house.lender.check()

    def close(self, patience: float = _CLOSE_S) -> None:
        """Hangs up on everybody. Returns when all its threads have ended, or after about `patience` seconds."""
        until = time.monotonic() + patience
        self._closing = True
        for _, listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        for _, listener in self._listeners:
            listener.close()
        with self._lock:
            open_ = list(self._open.items())
        for served, _ in open_:
            served.hang_up()
        for served, thread in open_:
            thread.join(max(0.0, until - time.monotonic()))
            served.join(until)
        self._house.lender.close()

    def _fill(self, into: MemoryAccount) -> None:
        me = self._me
        into.worker, into.incarnation, into.host, into.device = me.worker, me.incarnation, me.host, me.device
        self._house.lender.fill(into.leases)
        self._house.counts.fill(into.pulls)
        for fill in self._fillers:
            fill(into)

    def _accept(self, listener: socket.socket, unix: bool) -> None:
        while not self._closing:
            try:
                end, _ = listener.accept()
            except OSError as error:
                if self._closing:
                    return
                log.warning("nobody can connect to the data service at present: %s", error)  # no descriptor is left
                time.sleep(_RETRY_S)
                continue
            with self._lock:
                room = len(self._open) < self._most
            if not room or (unix and not is_ours(end)):
                end.close()
                continue
            threading.Thread(target=self._serve, args=(end, unix), name="data-served", daemon=True).start()

    def _serve(self, end: socket.socket, unix: bool) -> None:
        try:
            ready = end if unix else self._secured(end)
        except OSError as error:
            log.warning("a connection to the data service is refused: %s", error)
            end.close()
            return
        served = Served(Framed(ready), self._house)
        with self._lock:
            self._open[served] = threading.current_thread()
            closing = self._closing
        if closing:
            served.hang_up()
        try:
            served.run()
        finally:
            with self._lock:
                del self._open[served]

    def _secured(self, end: socket.socket) -> socket.socket:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            end.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._context is None:
            return end
        end.settimeout(self._patience)
        return self._context.wrap_socket(end, server_side=True)


def _context(tls: TlsConfig) -> ssl.SSLContext:
    try:
        return server_context(tls)
    except OSError as error:
        files = ", ".join(tls.files)
        raise InvalidArgument(f"certificates do not fit ({files}): {error}", field="tls", cure=TLS_CURE) from error


def _bind_all(addresses: Sequence[str]) -> list[tuple[str, socket.socket]]:
    bound: list[tuple[str, socket.socket]] = []
    try:
        for address in addresses:
            bound.append(_bind(address))
    except (OSError, ValueError) as error:
        for _, listener in bound:
            listener.close()
        raise InvalidArgument(
            f"the data service cannot listen on {address}: {error}",
            field="data_listen",
            cure="give it an address of this machine that is free, e.g. `data_listen: [tcp:127.0.0.1:0]`",
        ) from error
    return bound


def _bind(address: str) -> tuple[str, socket.socket]:
    if is_unix(address):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(unix_name(address))
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return address, listener
    host, port = host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    shown = f"[{host}]" if ":" in host else host
    return f"tcp:{shown}:{listener.getsockname()[1]}", listener


def _store_host(addresses: Sequence[str]) -> str:
    """Where the store for process groups listens: as the service does."""
    for address in addresses:
        if not is_unix(address):
            return host_and_port(address)[0]
    return "127.0.0.1"
