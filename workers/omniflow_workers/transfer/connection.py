"""One connection to another worker's data service: requests, and the replies to them, in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError

from omniflow.config import TlsConfig
from omniflow.data import PROTOCOL, BadFrame, Framed, HungUp, dial, greet, is_unix
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.data_pb2 import DataHello, DataReply, DataRequest, DataWelcome, EndLeases
from omniflow_workers.transfer.errors import PeerLost, PeerMisbehaved, Refused
from omniflow_workers.transfer.identity import Identity
from omniflow_workers.transfer.limits import TransferLimits

Revoked = Callable[[int, Sequence[int]], None]


class Connection:
    """Safe to use from any thread; one asks at a time.

    Who asks reads the answer itself: no other thread has to wake for it. A reply that comes too late is taken in by
    whoever asks next, or by `look`; what it lends is given back.
    """

    def __init__(
        self, number: int, worker: str, end: Framed, welcome: DataWelcome, host: str, revoked: Revoked
    ) -> None:
        """`number`: of this connection here; `host`: by which the owner was reached, empty over a Unix socket."""
        self.number = number
        self.worker = worker
        self.incarnation = welcome.incarnation
        self.owner_host = welcome.host
        self.host = host
        self.max_lease_ms = welcome.max_lease_ms
        self.broken = False
        self._end = end
        self._revoked = revoked
        self._lock = threading.Lock()
        self._last_id = 1
        self._late: set[int] = set()
        self._late_since = 0.0
        self._to_end: deque[int] = deque()
        self._closed = False

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def local_host(self) -> str:
        """This side's address; empty over a Unix socket."""
        return self._end.local_host

    @property
    def late(self) -> float:
        """For how many seconds it has owed an answer to somebody who has given up; 0 when it owes none."""
        return time.monotonic() - self._late_since if self._late else 0.0

    def ask(self, request: DataRequest, patience: float) -> DataReply:
        """Raises `Refused` for an error, `PeerLost`, `PeerMisbehaved`. No answer in time: the connection is broken."""
        with self._lock:
            self._send(request, patience)
            try:
                return self._receive(request.id, patience)
            except TimeoutError as error:
                self.broken = True
                raise self._lost(f"it does not answer within {patience:g} s") from error
            finally:
                self._flush(patience)

    def tell(self, request: DataRequest, patience: float) -> None:
        """One that has no answer. Raises `PeerLost`."""
        with self._lock:
            self._send(request, patience)

    def begin(self, request: DataRequest, until: float, *, busy_until: float | None = None) -> bool:
        """Sends it, and keeps the connection for `finish`. False when it is busy until `busy_until`, or `until`."""
        waits = (until if busy_until is None else busy_until) - time.monotonic()
        if not self._lock.acquire(timeout=max(0.0, waits)):
            return False
        try:
            self._send(request, max(0.001, until - time.monotonic()))
        except BaseException:
            self._lock.release()
            raise
        return True

    def finish(self, request: DataRequest, until: float) -> DataReply | None:
        """The answer to what `begin` sent; None when it does not come in time."""
        patience = max(0.001, until - time.monotonic())
        try:
            return self._receive(request.id, patience)
        except TimeoutError:
            if not self._late:
                self._late_since = time.monotonic()
            self._late.add(request.id)
            return None
        finally:
            self._flush(patience)
            self._lock.release()

    def end_leases(self, leases: Sequence[int], patience: float) -> None:
        """Gives them back: now, or as soon as nobody asks something. Nothing to do when the connection is broken."""
        self._to_end.extend(leases)
        # Who holds the lock looks again after having let go of it: none is left lying.
        while self._to_end and not self.broken and self._lock.acquire(blocking=False):
            try:
                self._flush(patience)
            finally:
                self._lock.release()

    def look(self, patience: float) -> None:
        """Takes in late replies, unless somebody asks."""
        self.end_leases((), patience)
        if not self._late or not self._lock.acquire(blocking=False):
            return
        try:
            self._receive(0, 0.001)
        except TimeoutError:
            pass
        except (PeerLost, PeerMisbehaved, Refused):
            self.broken = True
        finally:
            self._lock.release()

    def hang_up(self) -> None:
        """From any thread: who asks hears of it."""
        self.broken = True
        self._end.hang_up()

    def close(self) -> None:
        """Frees the descriptor, after who still asks."""
        self.hang_up()
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end.close()

    def _send(self, request: DataRequest, patience: float) -> None:
        if self.broken:
            raise self._lost("the connection has ended")
        self._last_id += 1
        request.id = self._last_id
        try:
            self._end.send(request.SerializeToString(), patience)
        except (HungUp, TimeoutError) as error:
            self.broken = True
            raise self._lost(str(error)) from error

    def _receive(self, number: int, patience: float) -> DataReply:
        """Raises `TimeoutError` when nothing comes; for number 0 after having taken in what is late."""
        until = time.monotonic() + patience
        while True:
            try:
                reply = DataReply.FromString(self._end.receive(max(0.001, until - time.monotonic())))
            except HungUp as error:
                self.broken = True
                raise self._lost(str(error)) from error
            except (BadFrame, DecodeError) as error:
                raise self._misbehaved(str(error)) from error
            if reply.revoked:
                self._revoked(self.number, reply.revoked)
            if reply.id == number:
                if reply.WhichOneof("reply") == "error":
                    raise Refused(reply.error.code, reply.error.message, worker=self.worker, cure=reply.error.cure)
                return reply
            if reply.id in self._late:
                self._late.discard(reply.id)
                if reply.acquired.lease:
                    self._to_end.append(reply.acquired.lease)
                continue
            if reply.id == 0 and reply.HasField("error"):
                self.broken = True
                raise Refused(reply.error.code, reply.error.message, worker=self.worker, cure=reply.error.cure)
            raise self._misbehaved(f"it answers request {reply.id}, which nobody has made")

    def _flush(self, patience: float) -> None:
        leases = []
        while self._to_end:
            leases.append(self._to_end.popleft())
        if not leases or self.broken:
            return
        self._last_id += 1
        request = DataRequest(id=self._last_id, end=EndLeases(leases=leases))
        try:
            self._end.send(request.SerializeToString(), patience)
        except (HungUp, TimeoutError):
            self.broken = True  # who asks next, or the keeper, finds it so; the owner has ended them then

    def _lost(self, why: str) -> PeerLost:
        return PeerLost(f"worker {self.worker} has gone, or hangs", worker=self.worker, cause=why)

    def _misbehaved(self, what: str) -> PeerMisbehaved:
        self.hang_up()
        cure = "see whether all workers run the same version"
        return PeerMisbehaved(f"worker {self.worker} says what cannot be", worker=self.worker, cause=what, cure=cure)


def connect(
    number: int,
    epoch: int,
    me: Identity,
    info: WorkerInfo,
    tls: TlsConfig | None,
    limits: TransferLimits,
    revoked: Revoked,
) -> Connection:
    """Dials the worker's addresses in turn, those of this host first. Raises `PeerLost` saying what each of them had to
    say."""
    said: list[str] = []
    addresses = sorted(info.data_addresses, key=lambda address: not is_unix(address))
    for address in addresses:
        if is_unix(address) and info.host != me.host:
            continue
        try:
            end = dial(address, tls, limits.connect_s)
        except HungUp as error:
            said.append(str(error))  # which names the address
            continue
        except (ValueError, OSError) as error:
            said.append(f"{address}: {error}")
            continue
        try:
            welcome = _welcomed(end, epoch, me, info, limits)
        except (HungUp, TimeoutError, BadFrame, DecodeError, Refused) as error:
            end.close()
            said.append(f"{address}: {error}")
            continue
        host = "" if is_unix(address) else address.removeprefix("tcp:").rpartition(":")[0].strip("[]")
        return Connection(number, info.name, end, welcome, host, revoked)
    cause = "\n".join(said) or "it has registered no data address that can be reached from this host"
    raise unreachable(info.name, cause)


def unreachable(worker: str, cause: str) -> PeerLost:
    return PeerLost(f"worker {worker} cannot be reached for its pages", worker=worker, cause=cause)


def _welcomed(end: Framed, epoch: int, me: Identity, info: WorkerInfo, limits: TransferLimits) -> DataWelcome:
    hello = DataHello(
        cluster=me.cluster,
        name=me.worker,
        incarnation=me.incarnation,
        epoch=epoch,
        host=me.host,
        to=info.name,
        to_incarnation=info.incarnation,
    )
    reply = greet(end, hello, limits.answer_s)
    if reply.WhichOneof("reply") == "error":
        raise Refused(reply.error.code, reply.error.message, worker=info.name, cure=reply.error.cure)
    welcome = reply.welcome
    if reply.WhichOneof("reply") != "welcome" or (welcome.protocol, welcome.name) != (PROTOCOL, info.name):
        raise BadFrame("its first word is no welcome")
    return welcome
