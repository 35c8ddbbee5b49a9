"""Leases over sockets, between workers of this process."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from omniflow.data import ask_account
from omniflow.errors import Unavailable
from omniflow.v1.data_pb2 import AcquirePages, DataError, DataRequest
from omniflow_core import PageKeys, StalePage
from omniflow_workers.transfer import Acquired, MappedArena, PeerLost, TransferLimits
from tests.cluster_fixtures.data_plane import CLUSTER, PATIENCE_S, Plane, say, wait_until
from tests.cluster_fixtures.tiny_source import MODEL, TinySource, arena_of, keys_of

LAYOUT = "bytes"


def test_the_longest_known_prefix_is_lent_until_it_is_released(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    plane.lend("owner", source)
    peers = plane.borrow()
    borrowed = peers.acquire("owner", MODEL, LAYOUT, keys_of(1, 12))
    assert borrowed is not None
    with borrowed:
        assert (len(borrowed.pages), borrowed.worker, borrowed.in_place) == (8, "owner", False)
        assert source.holds(1, borrowed.pages)
        assert source.leased == 8
        borrowed.verify()
    wait_until(lambda: source.leased == 0, "the lease's end")
    assert peers.acquire("owner", MODEL, LAYOUT, keys_of(2, 4)) is None


def test_a_lease_that_is_held_is_renewed(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    borrowed = plane.borrow().acquire("owner", MODEL, LAYOUT, keys_of(1, 8), ttl=3.0)
    assert borrowed is not None
    wait_until(lambda: service.account().leases.renewed >= 2, "two renewals")
    assert source.leased == 8
    assert not borrowed.lost
    borrowed.release()


def test_a_lease_that_nobody_renews_ends_and_its_borrower_hears_of_it(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    end = plane.raw(service.addresses[0], "silent")
    asked = AcquirePages(model=MODEL, layout=LAYOUT, keys=bytes(keys_of(1, 8)), ttl_ms=30)
    lease = say(end, DataRequest(id=2, acquire=asked)).acquired.lease
    wait_until(lambda: service.account().leases.expired == 1, "the end of the lease")
    wait_until(lambda: source.leased == 0, "the end of the lease at its source")
    assert say(end, DataRequest(id=3, acquire=asked)).revoked == [lease]


def test_a_borrower_that_hangs_up_holds_nothing(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    end = plane.raw(service.addresses[1], "dying")
    asked = AcquirePages(model=MODEL, layout=LAYOUT, keys=bytes(keys_of(1, 8)), ttl_ms=60_000)
    for number in range(2, 5):
        assert say(end, DataRequest(id=number, acquire=asked)).acquired.lease
    assert source.leased == 8
    end.hang_up()
    wait_until(lambda: source.leased == 0, "the end of its leases")
    assert service.account().leases.dropped == 3


def test_an_owner_that_goes_takes_its_leases_along(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    peers = plane.borrow()
    borrowed = peers.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
    assert borrowed is not None
    service.close()
    wait_until(lambda: borrowed.lost, "the borrower's knowing")
    with pytest.raises(StalePage):
        borrowed.verify()
    with pytest.raises(PeerLost):
        peers.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
    assert source.leased == 0


def test_a_lease_that_its_source_has_ended_is_found_lost(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    plane.lend("owner", source)
    borrowed = plane.borrow().acquire("owner", MODEL, LAYOUT, keys_of(1, 8), ttl=1.0)
    assert borrowed is not None
    for lease in range(100):  # whatever number it has there
        try:
            source.end(lease)
        except Exception:
            continue
    wait_until(lambda: borrowed.lost, "the next renewal")


def test_a_borrower_that_forgets_what_it_holds_gives_it_back_when_that_is_collected(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    plane.lend("owner", source)
    borrowed = plane.borrow().acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
    assert borrowed is not None
    del borrowed
    gc.collect()
    wait_until(lambda: source.leased == 0, "the lease's end")


def test_a_later_connection_of_a_borrower_takes_the_place_of_an_earlier_one(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    first = plane.raw(service.addresses[0], "ada", epoch=1)
    asked = AcquirePages(model=MODEL, layout=LAYOUT, keys=bytes(keys_of(1, 8)), ttl_ms=60_000)
    assert say(first, DataRequest(id=2, acquire=asked)).acquired.lease
    plane.raw(service.addresses[0], "ada", epoch=2)
    wait_until(lambda: source.leased == 0, "the end of what the earlier one held")
    with pytest.raises(ConnectionError):
        say(first, DataRequest(id=3, acquire=asked))
    with pytest.raises(AssertionError, match="STALE_EPOCH"):
        plane.raw(service.addresses[0], "ada", epoch=1)


class Hangs(TinySource):
    """Lends what another source has, once it may."""

    def __init__(self, source: TinySource) -> None:
        self.__dict__.update(source.__dict__)
        self.goes_on = threading.Event()

    def acquire(self, keys: PageKeys, holder: int, until_ms: int, /) -> Acquired | None:
        assert self.goes_on.wait(PATIENCE_S)
        return super().acquire(keys, holder, until_ms)


def test_who_has_most_of_a_sequence_lends_it_and_who_hangs_is_passed_over(plane: Plane) -> None:
    sources = {name: TinySource(64) for name in ("short", "long", "none")}
    sources["short"].compute(1, 3)
    sources["long"].compute(1, 9)
    for name, source in sources.items():
        plane.lend(name, source)
    hanging = TinySource(64)
    hanging.compute(1, 12)
    hangs = Hangs(hanging)
    plane.lend("hanging", hangs)
    peers = plane.borrow()
    hangs.goes_on.set()
    with peers.best(MODEL, LAYOUT, keys_of(1, 12), within=PATIENCE_S) or pytest.fail("nobody lends") as borrowed:
        assert (borrowed.worker, len(borrowed.pages)) == ("hanging", 12)
    hangs.goes_on.clear()
    with peers.best(MODEL, LAYOUT, keys_of(1, 12), within=2.0) or pytest.fail("nobody lends") as borrowed:
        assert (borrowed.worker, len(borrowed.pages)) == ("long", 9)
    hangs.goes_on.set()
    wait_until(lambda: hanging.leased == 0, "a lease that came too late is given back")
    wait_until(lambda: all(source.leased == 0 for source in sources.values()), "the losers' leases end")


def test_of_two_roles_of_a_worker_with_one_model_that_lends_which_has_most(plane: Plane) -> None:
    roles = [TinySource(64), TinySource(64), TinySource(64)]
    for source, pages in zip(roles, (3, 9, 5), strict=True):
        source.compute(1, pages)
    service = plane.lend("owner", *roles)
    borrowed = plane.borrow().acquire("owner", MODEL, LAYOUT, keys_of(1, 12)) or pytest.fail("nobody lends")
    assert roles[1].holds(1, borrowed.pages)
    assert [source.leased for source in roles] == [0, 9, 0]
    assert service.account().leases.leases_now == 1
    borrowed.release()
    wait_until(lambda: roles[1].leased == 0, "the lease's end")


def test_a_role_borrows_from_another_one_of_its_own_worker(plane: Plane) -> None:
    prefill, decode = TinySource(64), TinySource(64)
    prefill.compute(1, 8)
    plane.lend("both", prefill, decode)
    plane.lend("alone", TinySource(64))
    peers = plane.borrow("both")
    with peers.best(MODEL, LAYOUT, keys_of(1, 8), within=PATIENCE_S) or pytest.fail("nobody lends") as borrowed:
        assert (borrowed.worker, len(borrowed.pages)) == ("both", 8)
        with decode.take(8) as run:
            borrowed.pull(decode, np.array(run))
            assert decode.holds(1, np.array(run))
    assert plane.borrow("alone").workers(MODEL, LAYOUT) == ["both"], "which has nobody to ask but others"


class RenewsLate(TinySource):
    """One whose renewals hang until it may go on."""

    def __init__(self) -> None:
        super().__init__(64)
        self.goes_on = threading.Event()

    def renew(self, lease: int, now_ms: int, until_ms: int, /) -> None:
        assert self.goes_on.wait(PATIENCE_S)
        super().renew(lease, now_ms, until_ms)


def test_leases_of_others_are_renewed_while_one_owner_hangs(plane: Plane) -> None:
    hangs, healthy = RenewsLate(), TinySource(64)
    services = {}
    for name, source in (("hangs", hangs), ("healthy", healthy)):
        source.compute(1, 8)
        services[name] = plane.lend(name, source)
    # Before it is given up, a lease that waits for it has ended.
    peers = plane.borrow(limits=TransferLimits(answer_s=20.0))
    held = [peers.acquire(name, MODEL, LAYOUT, keys_of(1, 8), ttl=8.0) for name in services]
    first, second = (each or pytest.fail("nothing is lent") for each in held)
    wait_until(lambda: second.lost or services["healthy"].account().leases.renewed >= 2, "two renewals")
    assert not second.lost
    hangs.goes_on.set()
    first.release()
    second.release()


def test_pages_in_a_pool_that_both_map_are_used_where_they_lie(plane: Plane) -> None:
    arena = arena_of(64, 4096)
    source = TinySource(64, arena=arena, pool_owner=7)
    source.compute(1, 8)
    plane.lend("owner", source)
    peers = plane.borrow()
    peers.share(MappedArena(arena))
    borrowed = peers.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
    assert borrowed is not None
    assert borrowed.in_place
    borrowed.verify()
    with source.take(8) as run:
        report = borrowed.pull(source, np.array(run))
        assert (report.pages, report.way) == (8, "local")
        assert source.holds(1, np.array(run))
    source.index.evict(8)
    borrowed.verify()  # a lease keeps them
    borrowed.release()
    wait_until(lambda: source.leased == 0, "the lease's end")


def test_what_was_freed_under_a_reader_is_stale(plane: Plane) -> None:
    arena = arena_of(64, 4096)
    source = TinySource(64, arena=arena, pool_owner=7)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    peers = plane.borrow()
    peers.share(MappedArena(arena))
    borrowed = peers.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
    assert borrowed is not None
    service.close()  # its holds are over, and its pages free
    source.index.evict(8)
    with pytest.raises(StalePage):
        borrowed.verify()


def test_the_account_says_what_is_lent_and_borrowed(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source)
    peers = plane.borrow()
    borrowed = peers.acquire("owner", MODEL, LAYOUT, keys_of(1, 8))
    assert borrowed is not None
    account = ask_account("owner", service.addresses, CLUSTER)
    assert (account.worker, account.leases.leases_now, account.leases.pages_now) == ("owner", 1, 8)
    peers.account(account)
    assert (account.borrowed.leases_now, account.borrowed.pages_now) == (1, 8)
    borrowed.release()
    wait_until(lambda: service.account().leases.leases_now == 0, "the lease's end")


def test_asking_for_the_account_of_somebody_else_says_who_is_there(plane: Plane) -> None:
    service = plane.lend("owner", TinySource(64))
    with pytest.raises(Unavailable, match="owner"):
        ask_account("another", service.addresses, CLUSTER)
    with pytest.raises(Unavailable, match="cluster"):
        ask_account("owner", service.addresses, "another")
    assert service.account().leases.refused >= 2


def test_a_lease_longer_than_the_owner_likes_is_cut(plane: Plane) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = plane.lend("owner", source, limits=TransferLimits(max_lease_s=1.0))
    end = plane.raw(service.addresses[0], "greedy")
    asked = AcquirePages(model=MODEL, layout=LAYOUT, keys=bytes(keys_of(1, 8)), ttl_ms=3_600_000)
    assert say(end, DataRequest(id=2, acquire=asked)).acquired.ttl_ms == 1_000


def test_pages_of_another_model_are_unknown_here(plane: Plane) -> None:
    service = plane.lend("owner", TinySource(64))
    end = plane.raw(service.addresses[0], "lost")
    asked = AcquirePages(model="other", layout=LAYOUT, keys=bytes(keys_of(1, 1)), ttl_ms=1000)
    assert say(end, DataRequest(id=2, acquire=asked)).error.code == DataError.UNKNOWN_SOURCE
