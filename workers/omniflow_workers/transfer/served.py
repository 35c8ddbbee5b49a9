"""One connection to the data service: requests in, replies out, in order, on a thread of its own."""

from __future__ import annotations

import logging
import threading

from google.protobuf.message import DecodeError

from omniflow.data import MAX_GREETING_BYTES, PROTOCOL, BadFrame, Framed, HungUp
from omniflow.v1.data_pb2 import (
    DataError,
    DataHello,
    DataReply,
    DataRequest,
    DataWelcome,
    MemoryAccount,
    PullFinished,
)
from omniflow_workers.stop_at import stop_at
from omniflow_workers.transfer.base import FillAccount
from omniflow_workers.transfer.counts import PullCounts
from omniflow_workers.transfer.errors import Refused
from omniflow_workers.transfer.identity import Identity
from omniflow_workers.transfer.lender import Lender
from omniflow_workers.transfer.lending import Borrower
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.sending import Sender
from omniflow_workers.transfer.store import LOOPBACK, StoreHome

log = logging.getLogger(__name__)


class House:
    """What all connections of a data service share."""

    def __init__(
        self, me: Identity, lender: Lender, store: StoreHome, limits: TransferLimits, account: FillAccount
    ) -> None:
        self.me = me
        self.lender = lender
        self.store = store
        self.limits = limits
        self.account = account
        self.counts = PullCounts()
        self._lock = threading.Lock()
        self._by_holder: dict[int, Served] = {}

    def enter(self, connection: Served, borrower: Borrower) -> int:
        """Greets it, and hangs up on the one whose place it takes. Raises `Refused`."""
        with self._lock:  # one step: whose place the next one takes can be hung up on
            holder, earlier = self.lender.greet(borrower)
            self._by_holder[holder] = connection
            replaced = self._by_holder.get(earlier) if earlier is not None else None
        if replaced is not None:
            replaced.hang_up()
        return holder

    def leave(self, holder: int) -> None:
        """All that the connection held is free."""
        with self._lock:
            self._by_holder.pop(holder, None)
        self.lender.hang_up(holder)


class Served:
    """One connection."""

    def __init__(self, end: Framed, house: House) -> None:
        self._end = end
        self._house = house
        self._lender = house.lender
        self._sender: Sender | None = None
        self._holder = 0
        self._last_id = 0

    def hang_up(self) -> None:
        """From any thread: `run` returns soon."""
        self._end.hang_up()

    def run(self) -> None:
        """Returns when the connection has ended, with nothing of it left."""
        try:
            if self._greeted():
                while True:
                    self._serve_one()
        except HungUp:
            pass
        except (BadFrame, DecodeError, TimeoutError) as error:
            self._misbehaved(str(error))
        except Refused as error:
            self._misbehaved(error.message)
        finally:
            self._leave()

    def join(self, until: float) -> None:
        """Waits for what it still sends."""
        if self._sender is not None:
            self._sender.join(until)

    def _leave(self) -> None:
        if self._holder:
            self._house.leave(self._holder)
        if self._sender is not None:
            self._sender.close()
        self._end.hang_up()
        self._end.close()

    def _greeted(self) -> bool:
        """The first message: whether it is one of ours, who means us."""
        patience = self._house.limits.answer_s
        request = DataRequest.FromString(self._end.receive(patience, limit=MAX_GREETING_BYTES))
        me = self._house.me
        try:
            if request.WhichOneof("request") != "hello":
                raise self._lender.refuse(DataError.BAD_MESSAGE, "the first message says who dials")
            self._require_me(request.hello)
            hello = request.hello
            borrower = Borrower(hello.name, hello.incarnation, hello.epoch)
            self._holder = self._house.enter(self, borrower)
        except Refused as error:
            self._say(DataReply(error=_error(error)))
            return False
        self._last_id = request.id
        welcome = DataWelcome(
            protocol=PROTOCOL,
            name=me.worker,
            incarnation=me.incarnation,
            host=me.host,
            max_lease_ms=self._lender.max_lease_ms,
        )
        self._say(DataReply(id=request.id, welcome=welcome))
        return True

    def _require_me(self, hello: DataHello) -> None:
        me = self._house.me
        for what, theirs, ours in (
            ("protocol", str(hello.protocol), str(PROTOCOL)),
            ("cluster", hello.cluster, me.cluster),
            ("worker", hello.to or me.worker, me.worker),
            ("incarnation", hello.to_incarnation or me.incarnation, me.incarnation),
        ):
            if theirs != ours:
                raise self._lender.refuse(DataError.WRONG_PEER, f"this is {what} {ours!r}, and not {theirs[:80]!r}")

    def _serve_one(self) -> None:
        request = DataRequest.FromString(self._end.receive(None, rest=self._house.limits.answer_s))
        if request.id <= self._last_id:
            raise BadFrame(f"request {request.id} after request {self._last_id}: ids rise")
        self._last_id = request.id
        try:
            reply = self._answer(request)
        except Refused as error:
            reply = DataReply(error=_error(error))
        if reply is None:
            return
        reply.id = request.id
        reply.revoked.extend(self._lender.take_revoked(self._holder))
        self._say(reply)

    def _answer(self, request: DataRequest) -> DataReply | None:
        lender, holder = self._lender, self._holder
        match request.WhichOneof("request"):
            case "acquire":
                return DataReply(acquired=lender.acquire(holder, request.acquire))
            case "renew":
                return DataReply(renewed=lender.renew(holder, request.renew.leases, request.renew.ttl_ms))
            case "end":
                lender.release(holder, request.end.leases)
                return None
            case "begin_pull":
                sender = self._sender_of_pulls()
                host = self._end.local_host or LOOPBACK
                return DataReply(pull_begun=sender.begin(holder, request.begin_pull, host))
            case "finish_pull":
                stop_at("data.owner.finishing")
                pull = lender.finish_pull(holder, request.finish_pull.pull)
                self._house.counts.add(finished=1)
                return DataReply(pull_finished=PullFinished(pull=pull.number, bytes=pull.bytes))
            case "abort_pull":
                lender.abort_pull(holder, request.abort_pull.pull)
                return None
            case "account":
                account = MemoryAccount()
                self._house.account(account)
                return DataReply(account=account)
            case other:
                raise BadFrame(f"a message that is no request here: {other or 'empty'}")

    def _sender_of_pulls(self) -> Sender:
        if self._sender is None:
            house = self._house
            name = f"{house.me.incarnation}/{self._holder}"
            self._sender = Sender(name, house.lender, house.store, house.limits, house.counts)
        return self._sender

    def _say(self, reply: DataReply) -> None:
        self._end.send(reply.SerializeToString(), self._house.limits.answer_s)

    def _misbehaved(self, problem: str) -> None:
        """Nothing that it says can be trusted any more: it is told so, and its connection closes."""
        log.warning("a peer's connection to the data service is closed: %s", problem)
        try:
            error = self._lender.refuse(DataError.BAD_MESSAGE, problem)
            self._say(DataReply(error=_error(error)))
        except (HungUp, TimeoutError):
            pass


def _error(error: Refused) -> DataError:
    return DataError(code=error.code_number, message=error.message, cure=error.cure)
