"""A worker that leaves lends no more before its pages are others', and keeps those that a thread may still write to."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest

from omniflow import Text
from omniflow.roles import Role, method, spec_of
from omniflow_core import ArenaLayout
from omniflow_workers.host import LoadedRole
from omniflow_workers.pools import PoolShare, join_pool
from omniflow_workers.stopping import Serving, stop
from tests.cluster_fixtures.data_plane import wait_until

PAGES = 65
LAYOUT = ArenaLayout("pages", page_bytes=4096, pages=PAGES, fingerprint=bytes(range(32)))
EVER = 60.0


class HasPages(Role):
    """With a share of a pool, as an engine has."""

    def __init__(self, share: PoolShare, said: list[str]) -> None:
        self.share = share
        self.said = said

    @method
    def echo(self, text: Text) -> Text:
        return text

    def unload(self) -> None:
        self.said.append("unloads")
        self.share.close()


class Parts:
    """The worker's data path and its data plane: says what is asked of it."""

    def __init__(self, said: list[str], what: str) -> None:
        self.said = said
        self.what = what

    def stop_lending(self) -> None:
        self.said.append(f"{self.what} lends no more")

    def close(self) -> None:
        self.said.append(f"{self.what} closes")


@pytest.fixture
def two() -> Iterator[tuple[PoolShare, PoolShare]]:
    cluster = f"test-{uuid.uuid4().hex}"
    with join_pool(LAYOUT, cluster=cluster) as one, join_pool(LAYOUT, cluster=cluster) as other:
        yield one, other


def stops(role: HasPages, thread: threading.Thread, patience_s: float) -> None:
    said = role.said
    serving = Serving(LoadedRole("llm", role, spec_of(HasPages)), [thread])
    stop(Parts(said, "node"), [serving], Parts(said, "data plane"), patience_s)


def test_what_a_thread_may_still_write_to_is_given_to_nobody(two: tuple[PoolShare, PoolShare]) -> None:
    leaves, other = two
    assert leaves.grow(1)
    goes_on = threading.Event()
    thread = threading.Thread(target=goes_on.wait, args=(EVER,), daemon=True)
    thread.start()
    role = HasPages(leaves, [])
    stops(role, thread, 0.0)
    assert "unloads" not in role.said
    before = leaves.counters()
    assert not other.grow(PAGES - 1)
    assert leaves.allocator.counters()["own"] == before["own"] > 0
    assert other.counters()["own"] == PAGES - 1 - before["own"], "the rest of the pool is there for others"
    goes_on.set()
    thread.join(EVER)
    stops(role, thread, 0.0)
    wait_until(lambda: other.grow(PAGES - 1), "all pages are the other's")


def test_nothing_is_lent_any_more_when_pages_are_given_back(two: tuple[PoolShare, PoolShare]) -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    role = HasPages(two[0], [])
    stops(role, thread, EVER)
    assert role.said == ["node closes", "data plane lends no more", "unloads", "data plane closes"]
