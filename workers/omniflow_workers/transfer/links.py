"""The connections of one process to other workers' data services: one each, made when it is first needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from omniflow.config import TlsConfig
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow_workers.transfer.connection import Connection, Revoked, connect, unreachable
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.errors import PeerLost
from omniflow_workers.transfer.identity import Identity
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.receiving import Receiver

log = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Who could not be reached is not dialled again before."""


class Link:
    """A connection, and what is pulled over it."""

    def __init__(self, connection: Connection, receiver: Receiver) -> None:
        self.connection = connection
        self.receiver = receiver


class Links:
    """Safe to use from any thread."""

    def __init__(
        self,
        me: Identity,
        tls: TlsConfig | None,
        limits: TransferLimits,
        counts: PullCounts,
        revoked: Revoked,
        opened: Callable[[], None],
        gone: Callable[[int], None],
    ) -> None:
        """`opened` hears of every new connection; `gone` of every one that has ended, once, its number."""
        self._opened = opened
        self._me = me
        self._tls = tls
        self._limits = limits
        self._counts = counts
        self._revoked = revoked
        self._gone = gone
        self._lock = threading.Lock()
        self._by_worker: dict[str, Link] = {}
        self._by_number: dict[int, Link] = {}
        self._dialling: dict[str, Future[Link]] = {}
        self._unreachable: dict[str, tuple[float, str, str]] = {}
        """Until when it is not dialled, which incarnation, and why."""
        self._last_number = 0
        self._closed = False

    def open(self) -> list[Link]:
        """Those that are there."""
        with self._lock:
            return list(self._by_number.values())

    def known(self, worker: str) -> Link | None:
        """The one to that worker, if it is there."""
        with self._lock:
            link = self._by_worker.get(worker)
            return None if link is None or link.connection.broken else link

    def numbered(self, number: int) -> Link | None:
        with self._lock:
            return self._by_number.get(number)

    def to(self, info: WorkerInfo) -> Link:
        """The one to that worker, dialled if need be. Raises `PeerLost`."""
        return self.known(info.name) or self.dial(info, here=True).result(self._limits.answer_s * 2)

    def dial(self, info: WorkerInfo, *, here: bool = False) -> Future[Link]:
        """Connects: in a thread of its own, or `here`. Several who ask for the same worker share one attempt."""
        with self._lock:
            running = self._dialling.get(info.name)
            if running is not None:
                return running
            future: Future[Link] = Future()
            until, incarnation, cause = self._unreachable.get(info.name, (0.0, "", ""))
            if incarnation == info.incarnation and time.monotonic() < until:
                future.set_exception(unreachable(info.name, cause))  # a new one: raised again, one grows
                return future
            self._dialling[info.name] = future
            self._last_number += 1
            number = self._last_number
        if here:
            self._dial(number, info, future)
        else:
            work = threading.Thread(target=self._dial, args=(number, info, future), name="data-dial", daemon=True)
            work.start()
        return future

    def drop_if_broken(self, link: Link) -> None:
        """Ends it, when it is no good any more."""
        if link.connection.broken:
            self.drop(link)

    def drop(self, link: Link) -> None:
        """Ends it, and says so. Harmless when done before."""
        connection = link.connection
        connection.hang_up()
        with self._lock:
            there = self._by_number.pop(connection.number, None) is not None
            if self._by_worker.get(connection.worker) is link:
                del self._by_worker[connection.worker]
        if there:
            self._gone(connection.number)
            link.receiver.close()
            connection.close()

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            self._closed = True
            dialling = list(self._dialling.values())
        for future in dialling:
            future.exception(self._limits.answer_s * 2)
        for link in self.open():
            self.drop(link)

    def _dial(self, number: int, info: WorkerInfo, future: Future[Link]) -> None:
        try:
            connection = connect(number, number, self._me, info, self._tls, self._limits, self._revoked)
        except PeerLost as error:
            log.info("%s", error)
            now = time.monotonic()
            with self._lock:
                waiting = {name: each for name, each in self._unreachable.items() if each[0] > now}
                self._unreachable = {**waiting, info.name: (now + _AGAIN_S, info.incarnation, error.cause)}
                self._dialling.pop(info.name, None)
            future.set_exception(error)
            return
        except BaseException as error:
            with self._lock:
                self._dialling.pop(info.name, None)
            future.set_exception(error)
            return
        link = Link(connection, Receiver(connection, self._limits, self._counts))
        with self._lock:
            earlier = self._by_worker.get(info.name)
            self._by_worker[info.name] = link
            self._by_number[number] = link
            self._unreachable.pop(info.name, None)
            self._dialling.pop(info.name, None)
            closed = self._closed
        if earlier is not None:
            self.drop(earlier)
        if closed:
            self.drop(link)
            future.set_exception(PeerLost("this worker is leaving", worker=info.name))
            return
        self._opened()
        future.set_result(link)
