"""Shares of a pool over real channels, arenas and locks, in one process: what a member and a keeper do when the other
end is wrong, stopped or gone."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from omniflow.v1.data_pb2 import PoolAccount
from omniflow_core import ArenaChannel, ArenaLayout, ArenaListener
from omniflow_workers.arenas import create_arena
from omniflow_workers.pools import OwnerGoneError, PoolUnavailableError, join_pool, now_ms
from omniflow_workers.pools import share as share_module
from omniflow_workers.pools.addresses import PoolAddress
from omniflow_workers.pools.keeper import ARENA_NAME, Keeper, arena_words
from omniflow_workers.pools.locks import PoolLocks
from omniflow_workers.pools.shape import PoolShape, extent_pages
from omniflow_workers.pools.wire import Kind, Message, say
from tests.cluster_fixtures.data_plane import wait_until

PAGES = 65
ALL = PAGES - 1
LAYOUT = ArenaLayout("pages", page_bytes=4096, pages=PAGES, fingerprint=bytes(range(32)))
SHAPE = PoolShape(PAGES, 1, extent_pages(ALL))
PATIENCE_S = 60.0


@pytest.fixture
def cluster() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def heard(channel: ArenaChannel) -> Message:
    return Message.decode(channel.receive(patience=PATIENCE_S)[0])


def test_who_is_about_to_be_a_member_reports_on_the_dead_too(cluster: str) -> None:
    owner, dead = 7, 5
    listener = ArenaListener(PoolAddress.of(LAYOUT, cluster).keeper)
    arena = create_arena(LAYOUT, huge_pages=False)
    with ThreadPoolExecutor(1) as threads:
        joining = threads.submit(join_pool, LAYOUT, cluster=cluster)
        channel = listener.accept(patience=PATIENCE_S)
        assert heard(channel).kind is Kind.HELLO
        channel.offer([arena.offered(ARENA_NAME)], patience=PATIENCE_S)
        channel.send(say(Kind.WELCOME, owner, PAGES, 1, SHAPE.extent_pages).encode(), patience=PATIENCE_S)
        assert heard(channel) == say(Kind.WANT, 0)
        for message in (say(Kind.DIED, dead, 1), say(Kind.ANSWERED, 0)):
            channel.send(message.encode(), patience=PATIENCE_S)
        with joining.result(PATIENCE_S) as share:
            assert heard(channel) == say(Kind.REPORTED, dead), "else the dead one's pages are never free again"
            with pytest.raises(OwnerGoneError):
                share.reading(dead, np.array([1], np.uint32), now_ms() + 1000)


def test_who_is_not_taken_in_is_told_why(cluster: str) -> None:
    listener = ArenaListener(PoolAddress.of(LAYOUT, cluster).keeper)
    with pytest.raises(PoolUnavailableError, match="stopped or hangs"):
        join_pool(LAYOUT, cluster=cluster, patience=0.1)
    assert heard(listener.accept(patience=PATIENCE_S)).kind is Kind.HELLO


def test_a_keeper_that_is_stopped_is_waited_for_once(
    cluster: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    share = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    stopped = PoolLocks(share.arena.book.fileno())
    assert stopped.be(1), "a member that lives, and claims nothing"
    keeps.close()
    wait_until(lambda: share.counters()["keeps"] == 1, "the other makes a new book")
    assert not share.grow(1)
    monkeypatch.setattr(share_module, "_KEEPER_S", 10 * PATIENCE_S)
    again = threading.Thread(target=lambda: [share.grow(1) for _ in range(100)], daemon=True)
    again.start()
    again.join(PATIENCE_S)
    assert not again.is_alive(), "it waits again"
    stopped.close()
    wait_until(lambda: share.grow(1), "all who live have claimed")


@pytest.mark.parametrize("wrong", ["another has what is granted", "it has itself what is granted"])
def test_who_trusts_its_book_no_more_holds_up_no_other_book(cluster: str, stack: ExitStack, wrong: str) -> None:
    keeps = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    alone = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    third = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    another = PoolLocks(alone.arena.book.fileno())
    if wrong.startswith("another"):
        assert all(another.take_extent(extent) for extent in range(SHAPE.extents))
    else:
        alone.allocator.adopt(1, PAGES)
    alone.grow(ALL + 1)
    wait_until(lambda: alone._member.alone, "it hears of that")
    another.close()
    keeps.close()
    counts = (third.counters, alone.counters)
    wait_until(lambda: any(count().get("pool_owners") == 2 for count in counts), "a book of both is made")
    late = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    wait_until(lambda: late.grow(1), "there are pages for others")


def test_the_account_says_what_is_shared_and_the_keeper_what_all_have(cluster: str, stack: ExitStack) -> None:
    keeps = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    other = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    assert other.grow(1)
    accounts = PoolAccount(), PoolAccount()
    keeps.account(accounts[0])
    other.account(accounts[1])
    book = accounts[0].book
    assert (book.owners_now, book.extents) == (2, SHAPE.extents)
    assert book.owned == accounts[1].own_extents == SHAPE.extents - book.free > 0
    assert not accounts[1].HasField("book")


def test_a_keeper_that_has_given_up_can_be_closed(cluster: str) -> None:
    listener = ArenaListener(PoolAddress.of(LAYOUT, cluster).keeper)
    arena = create_arena(LAYOUT, huge_pages=False)
    keeper = Keeper(listener, arena, SHAPE, lost=False)
    channel = ArenaChannel.connect(PoolAddress.of(LAYOUT, cluster).keeper)
    channel.send(say(Kind.CLAIM, 1, *arena_words(arena)).encode(), patience=PATIENCE_S)
    wait_until(lambda: not keeper.alive, "it gives up")
    keeper.close()
    keeper.close()


def test_a_refused_member_never_takes_the_keepers_place(cluster: str, stack: ExitStack) -> None:
    """Else members of another pool, whose address it is, would be refused by it."""
    keeps = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    refused = stack.enter_context(join_pool(LAYOUT, cluster=cluster))
    refused._heard(say(Kind.REFUSED))
    refused._wake.send(b"x")
    keeps.close()
    address = PoolAddress.of(LAYOUT, cluster).keeper
    listener = ArenaListener(address)
    claims = listener.accept(patience=PATIENCE_S)
    assert heard(claims).numbers == (refused.owner, *arena_words(refused.arena))
    assert refused.counters()["keeps"] == 0
