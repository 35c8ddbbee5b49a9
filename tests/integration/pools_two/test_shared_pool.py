"""Two processes on one pool: each allocates for itself, reads the other's pages in place, and survives its death."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster_fixtures.data_plane import wait_until
from tests.cluster_fixtures.pool_member import PAGES, PoolMember


@pytest.fixture
def cluster() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def two(cluster: str) -> Iterator[tuple[PoolMember, PoolMember]]:
    with PoolMember(cluster) as one, PoolMember(cluster) as other:
        one.does("join")
        other.does("join")
        yield one, other


def test_each_allocates_for_itself_and_reads_the_others_pages_in_place(two: tuple[PoolMember, PoolMember]) -> None:
    one, other = two
    assert one.does("arena") == other.does("arena")
    written = []
    for member, value in ((one, 11), (other, 22)):
        assert member.does("grow", 5)
        written.append(member.does("write", 5, value))
    (first, first_pages, _), (second, second_pages, _) = written
    assert first != second
    assert not set(first_pages) & set(second_pages)
    assert other.does("read", first, first_pages) == [11]
    assert one.does("read", second, second_pages) == [22]


@pytest.mark.parametrize("keeps_the_book", [True, False])
def test_a_dead_owners_pages_stay_until_their_reader_has_done_and_are_then_handed_out_again(
    two: tuple[PoolMember, PoolMember], keeps_the_book: bool
) -> None:
    owner, reader = two if keeps_the_book else reversed(two)
    assert owner.does("grow", 10)
    number, pages, generations = owner.does("write", 10, 7)
    assert reader.does("read", number, pages) == [7]
    owner.kill()
    wait_until(lambda: reader.does("counters").get("pool_owners") == 1, "the survivor keeps the book")
    wait_until(
        lambda: not reader.does("grow", PAGES - 1) and reader.does("counters")["own"] == PAGES - 1 - len(pages),
        "all is handed out but what is read",
    )
    assert reader.does("counters")["withheld"] == len(pages)
    _, others, _ = reader.does("write", PAGES - 1 - len(pages), 8)
    assert not set(others) & set(pages)
    assert reader.does("look", pages) == [7]
    assert reader.does("is_as_noted", pages, generations)
    reader.does("stop_reading")
    wait_until(lambda: reader.does("grow", len(pages)), "they are free")
    _, again, _ = reader.does("write", len(pages), 9)
    assert sorted(again) == sorted(pages)
    assert not reader.does("is_as_noted", pages, generations)


def test_who_comes_later_joins_the_same_pool_whoever_made_it(cluster: str, two: tuple[PoolMember, PoolMember]) -> None:
    one, other = two
    arena = one.does("arena")
    one.kill()
    with PoolMember(cluster) as third:
        third.does("join")
        assert third.does("arena") == arena
        other.does("leave")
        wait_until(lambda: third.does("counters").get("pool_owners") == 1, "it keeps the book")
        assert third.does("grow", PAGES - 1)


def test_who_has_more_than_its_part_gives_what_it_does_not_use(two: tuple[PoolMember, PoolMember]) -> None:
    one, other = two
    assert one.does("grow", PAGES - 1)
    other.does("grow", 10)
    wait_until(lambda: other.does("grow", 10), "the other has its part")


def test_nothing_is_left_behind_by_kill_9(cluster: str) -> None:
    shared = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").is_dir() else set()
    with PoolMember(cluster) as survivor:
        survivor.does("join")
        before = survivor.does("descriptors")
        for _ in range(5):
            with PoolMember(cluster) as one:
                one.does("join")
                assert one.does("grow", 3)
                one.does("write", 3, 1)
        wait_until(lambda: survivor.does("counters")["pool_owners"] == 1, "all of them are gone")
        wait_until(lambda: survivor.does("descriptors") == before, "their connections are closed")
        counters = survivor.does("counters")
        assert counters["pool_free"] == counters["pool_extents"]
    assert not {path for path in set(Path("/dev/shm").iterdir()) - shared if "omniflow" in path.name}
