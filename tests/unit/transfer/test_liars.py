"""Peers that say what cannot be: a typed error, their connection closes, and nobody else notices."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from omniflow.config import TlsConfig
from omniflow.data import MAX_MESSAGE_BYTES, Framed, HungUp, dial, unix_name
from omniflow.v1.data_pb2 import (
    AcquirePages,
    BeginPull,
    DataError,
    DataHello,
    DataReply,
    DataRequest,
    DataWelcome,
    FinishPull,
    PagesAcquired,
    RenewLeases,
)
from omniflow_workers.transfer import DataPeers, DataService, FixedDirectory, MappedArena, PeerLost, PeerMisbehaved
from tests.cluster_fixtures.certificates import TLS, make_certificates
from tests.cluster_fixtures.data_plane import CLUSTER, PATIENCE_S, Plane, identity, info_of, say, wait_until
from tests.cluster_fixtures.tiny_source import MODEL, TinySource, arena_of, keys_of

LAYOUT = "bytes"
ASKED = AcquirePages(model=MODEL, layout=LAYOUT, keys=bytes(keys_of(1, 8)), ttl_ms=60_000)


def framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


LIES: dict[str, bytes] = {
    "more bytes than anybody sends": struct.pack("<I", MAX_MESSAGE_BYTES + 1),
    "four GiB": b"\xff" * 4,
    "no message": framed(b"\xff\xff\xff\xff"),
    "an empty request": framed(b""),
    "an id again": framed(DataRequest(id=1, acquire=ASKED).SerializeToString()),
    "a second greeting": framed(DataRequest(id=9, hello=DataHello()).SerializeToString()),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_borrower_that_says_no_request_is_told_so_and_hung_up_on(plane: Plane, lie: str) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    honest = plane.raw(service.addresses[0], "honest")
    assert say(honest, DataRequest(id=2, acquire=ASKED)).acquired.lease
    plain = socket.socket(socket.AF_UNIX)
    plain.connect(unix_name(service.addresses[0]))
    end = Framed(plain)
    hello = DataHello(protocol=1, cluster=CLUSTER, name="liar", incarnation="first", epoch=1)
    assert say(end, DataRequest(id=1, hello=hello)).HasField("welcome")
    plain.sendall(LIES[lie])
    reply = DataReply.FromString(end.receive(PATIENCE_S))
    assert (reply.id, reply.error.code) == (0, DataError.BAD_MESSAGE)
    with pytest.raises(HungUp):
        end.receive(PATIENCE_S)
    end.close()
    wait_until(lambda: service.account().leases.connections_now == 1, "the liar's end")
    assert say(honest, DataRequest(id=3, acquire=ASKED)).acquired.lease


def test_who_does_not_greet_is_not_served(plane: Plane) -> None:
    service = plane.lend("owner", TinySource(64))
    for first in (DataRequest(id=1, acquire=ASKED), DataRequest(id=1, hello=DataHello(protocol=99, cluster=CLUSTER))):
        end = dial(service.addresses[0], None, PATIENCE_S)
        assert say(end, first).error.code in (DataError.BAD_MESSAGE, DataError.WRONG_PEER)
        with pytest.raises(HungUp):
            end.receive(PATIENCE_S)
        end.close()


def test_requests_that_contradict_the_book_are_refused_and_change_nothing(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    end = plane.raw(service.addresses[0], "liar")
    lease = say(end, DataRequest(id=2, acquire=ASKED)).acquired.lease
    whole = BeginPull(pull=1, lease=lease, first=0, count=8, chunk_pages=1, group=1, backend="gloo", within_ms=1000)

    def pull(**changes: int | str) -> BeginPull:
        changed = BeginPull()
        changed.CopyFrom(whole)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed

    odd_keys = AcquirePages(model=MODEL, layout=LAYOUT, keys=b"x" * 33, ttl_ms=1000)
    lies = [
        (DataRequest(acquire=odd_keys), DataError.BAD_MESSAGE),
        (DataRequest(begin_pull=pull(count=9)), DataError.BAD_MESSAGE),
        (DataRequest(begin_pull=pull(first=2**32 - 1)), DataError.BAD_MESSAGE),
        (DataRequest(begin_pull=pull(lease=lease + 1)), DataError.UNKNOWN_LEASE),
        (DataRequest(begin_pull=pull(pull=2, chunk_pages=0)), DataError.BAD_MESSAGE),
        (DataRequest(begin_pull=pull(pull=3, chunk_pages=2**31)), DataError.BAD_MESSAGE),
        (DataRequest(begin_pull=pull(pull=4, backend="carrier pigeon")), DataError.BAD_MESSAGE),
        (DataRequest(begin_pull=pull(pull=1)), DataError.STALE_EPOCH),
        (DataRequest(finish_pull=FinishPull(pull=7)), DataError.STALE_EPOCH),
    ]
    for number, (request, code) in enumerate(lies, start=3):
        request.id = number
        assert say(end, request).error.code == code, request
    renewed = say(end, DataRequest(id=99, renew=RenewLeases(leases=[lease, 12345], ttl_ms=1000))).renewed
    assert list(renewed.gone) == [12345]
    account = service.account()
    assert (account.leases.leases_now, account.pulls.sending_now, account.pulls.groups_now) == (1, 0, 0)
    assert source.leased == 8


@contextlib.contextmanager
def lying_owner(source: TinySource, answer: Callable[[PagesAcquired], None]) -> Iterator[DataPeers]:
    """A borrower of an owner that greets well, and then changes what it lends by `answer`."""
    listener = socket.socket(socket.AF_UNIX)
    name = f"omniflow-test-liar-{os.getpid()}"
    listener.bind("\0" + name)
    listener.listen()

    def serve() -> None:
        end = Framed(listener.accept()[0])
        hello = DataRequest.FromString(end.receive(PATIENCE_S))
        welcome = DataWelcome(protocol=1, name="liar", incarnation="first", host="here", max_lease_ms=60_000)
        end.send(DataReply(id=hello.id, welcome=welcome).SerializeToString(), PATIENCE_S)
        asked = DataRequest.FromString(end.receive(PATIENCE_S))
        lent = PagesAcquired(
            lease=1, ttl_ms=1000, pages=b"\1\0\0\0", generations=bytes(8), page_bytes=4096, pool=source.pool or b""
        )
        answer(lent)
        end.send(DataReply(id=asked.id, acquired=lent).SerializeToString(), PATIENCE_S)
        with contextlib.suppress(HungUp):
            while True:  # it may give back
                end.receive(PATIENCE_S)
        end.close()

    thread = threading.Thread(target=serve)
    thread.start()
    info = info_of("liar", ["unix:@" + name], source)
    peers = DataPeers(identity("borrower"), FixedDirectory(info))
    try:
        yield peers
    finally:
        peers.close()
        thread.join(PATIENCE_S)
        listener.close()


def _too_many(lent: PagesAcquired) -> None:
    lent.pages, lent.generations = bytes(4 * 9), bytes(8 * 9)


def _half(lent: PagesAcquired) -> None:
    lent.generations = bytes(7)


def _none(lent: PagesAcquired) -> None:
    lent.pages, lent.generations = b"", b""


def _no_bytes(lent: PagesAcquired) -> None:
    lent.page_bytes = 0


def _for_ever(lent: PagesAcquired) -> None:
    lent.ttl_ms = 1 << 40


def _outside(lent: PagesAcquired) -> None:
    lent.pages = b"\xff\xff\xff\x7f"


@pytest.mark.parametrize("answer", [_too_many, _half, _none, _no_bytes, _for_ever, _outside])
def test_an_owner_that_lends_what_cannot_be_is_not_believed(answer: Callable[[PagesAcquired], None]) -> None:
    arena = arena_of(64, 4096)
    with lying_owner(TinySource(64, arena=arena, pool_owner=1), answer) as peers:
        peers.share(MappedArena(arena))
        with pytest.raises(PeerMisbehaved):
            peers.acquire("liar", MODEL, LAYOUT, keys_of(1, 8))


def test_with_certificates_only_who_has_one_borrows_over_tcp(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    tls = TlsConfig.model_validate({name: tmp_path / file for name, file in TLS.items()})
    source, mine = TinySource(64), TinySource(64)
    source.compute(1, 8)
    service = DataService(identity("owner"), [source], ["tcp:127.0.0.1:0"], tls=tls)
    over_tcp = [address for address in service.addresses if address.startswith("tcp:")]
    directory = FixedDirectory(info_of("owner", over_tcp, source))
    plain, ours = DataPeers(identity("plain"), directory), DataPeers(identity("ours"), directory, tls=tls)
    try:
        with pytest.raises(PeerLost):
            plain.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
        borrowed = ours.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
        assert borrowed is not None
        with borrowed, mine.take(8) as run:
            borrowed.pull(mine, np.array(run), timeout=PATIENCE_S)
            assert mine.holds(1, np.array(run))
    finally:
        plain.close()
        ours.close()
        service.close()


def test_process_groups_go_between_hosts_of_an_encrypted_cluster_only_if_asked_for(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    tls = TlsConfig.model_validate({name: tmp_path / file for name, file in TLS.items()})
    source = TinySource(64)
    source.compute(1, 8)
    service = DataService(identity("owner"), [source], ["tcp:127.0.0.1:0"], tls=tls)
    directory = FixedDirectory(info_of("owner", service.addresses, source))
    there = identity("there", host="another")
    cautious, told = DataPeers(there, directory, tls=tls), DataPeers(there, directory, tls=tls, transfer="collective")
    try:
        assert cautious.acquire("owner", MODEL, LAYOUT, keys_of(1, 8)) is None
        wait_until(lambda: source.leased == 0, "what cannot come is given back")
        cautious.close()
        borrowed = told.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
        assert borrowed is not None
        borrowed.release()
    finally:
        cautious.close()
        told.close()
        service.close()
