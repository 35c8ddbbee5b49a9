"""`kill -9` at every step of a shared pool: no page is handed out twice or lost, and nothing is left behind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster_fixtures.data_plane import wait_until
from tests.cluster_fixtures.pool_member import PAGES, Died, PoolMember

ALL = PAGES - 1
KEEPER = [
    "pool.keeper.welcome",
    "pool.keeper.granted",
    "pool.keeper.answered",
    "pool.keeper.death",
    "pool.keeper.died",
    "pool.keeper.leases",
    "pool.keeper.returned",
    "pool.keeper.wanted",
    "pool.keeper.more",
]
OWNER = ["pool.member.granted", "pool.member.granted.done", "pool.member.answered", "pool.member.retired"]
READER = ["pool.member.died", "pool.member.died.done", "pool.member.leases", "pool.member.returned"]
HEIR = [
    "pool.keeper.bound",
    "pool.keeper.restored",
    "pool.keeper.leases",
    "pool.member.claiming",
    "pool.member.restored",
    "pool.member.leases",
]


@dataclass
class Scene:
    """Processes on one pool. What each has written is what it must still find there."""

    cluster: str
    points: Path
    stack: ExitStack
    members: dict[str, PoolMember] = field(default_factory=dict)
    written: dict[str, tuple[list[int], int]] = field(default_factory=dict)
    armed: list[Path] = field(default_factory=list)

    def start(self, name: str) -> None:
        """It dies at the step that a file in its folder names (`arm`)."""
        folder = self.points / name
        folder.mkdir()
        self.members[name] = self.stack.enter_context(PoolMember(self.cluster, folder))
        self.tell(name, "join")

    def arm(self, name: str, point: str) -> None:
        (self.points / name / point).touch()
        self.armed.append(self.points / name / point)

    def tell(self, name: str, what: str, *arguments: object) -> object:
        """What it answers; None when it is dead, or dies of this."""
        member = self.members.get(name)
        if member is None:
            return None
        try:
            return member.does(what, *arguments)
        except Died:
            member.kill()
            del self.members[name]
            return None

    def write(self, name: str, pages: int, value: int) -> tuple[int, list[int]] | None:
        """(owner, pages); None when it is dead. Between two keepers nothing grows."""
        wait_until(lambda: bool(self.tell(name, "grow", pages)) or name not in self.members, f"{name} has pages")
        told = self.tell(name, "write", pages, value)
        if not isinstance(told, tuple):
            return None
        self.written.setdefault(name, (told[1], value))
        return told[0], told[1]

    def settle(self) -> None:
        """Until the book knows who lives, and nobody's report is awaited."""
        wait_until(lambda: any(self._knows_all(name) for name in list(self.members)), "the book knows who lives")

    def _knows_all(self, name: str) -> bool:
        counters = self.tell(name, "counters")
        if not isinstance(counters, dict):
            return False
        return counters.get("pool_owners") == len(self.members) and counters["pool_orphaned"] == 0

    def kill(self, name: str) -> None:
        if name in self.members:
            self.members.pop(name).kill()

    def check(self) -> None:
        """Every survivor has what it wrote, and each can have the whole pool, and so can who comes now."""
        wait_until(
            lambda: not all(path.exists() for path in self.armed) or not self.armed, "somebody comes to that step"
        )
        for path in self.armed:
            path.unlink(missing_ok=True)
        for name in list(self.members):
            if name in self.written:
                pages, value = self.written[name]
                assert self.tell(name, "look", pages) in (None, [value]), f"{name}'s pages were handed out to another"
        self.start("last")
        for name in list(self.members):
            for what in ("stop_reading", "release", "shrink"):
                self.tell(name, what)
        for name in list(self.members):
            wait_until(self._has_all(name), f"{name} has the whole pool")
            self.tell(name, "shrink")
        arenas = {self.tell(name, "arena") for name in list(self.members)}
        assert "last" in self.members
        assert len(arenas - {None}) == 1, "survivors and newcomers share a pool"

    def _has_all(self, name: str) -> Callable[[], bool]:
        return lambda: bool(self.tell(name, "grow", ALL)) or name not in self.members


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    shared = Path("/dev/shm")
    before = set(shared.iterdir()) if shared.is_dir() else set()
    with ExitStack() as stack:
        cluster = f"test-{uuid.uuid4().hex}"
        scene = Scene(cluster, tmp_path, stack)
        for name in ("keeper", "owner", "reader"):
            scene.start(name)
        yield scene
        left = set(shared.iterdir()) - before if shared.is_dir() else set()
        assert not [path for path in left if "omniflow" in path.name]


def play(scene: Scene, heir: str = "keeper") -> None:
    """All that happens in a pool. Whoever dies on the way is missing from then on. `heir` gets what the owner had."""
    for name, value in (("keeper", 1), ("owner", 2)):
        scene.write(name, 6, value)
    lent = scene.write("owner", 4, 3)
    if lent is not None:
        scene.tell("reader", "read", *lent)
    scene.tell("owner", "shrink")
    scene.start("late")
    scene.kill("owner")  # the keeper asks who reads its pages
    scene.settle()
    scene.tell(heir, "grow", ALL)  # what is read is withheld from it, and returned when that ends
    scene.tell("reader", "stop_reading")
    for name in ("reader", "keeper", "late"):
        scene.tell(name, "grow", ALL)  # they find too little
    for name in ("keeper", "reader"):
        scene.tell(name, "shrink")
    scene.tell("late", "grow", 3)
    scene.kill("keeper")
    scene.tell("reader", "grow", 3)
    scene.tell("late", "grow", 3)


@pytest.mark.parametrize("point", KEEPER)
def test_the_keeper_dies(scene: Scene, point: str) -> None:
    scene.arm("keeper", point)
    play(scene)
    scene.check()


@pytest.mark.parametrize("point", OWNER)
def test_an_owner_dies(scene: Scene, point: str) -> None:
    scene.arm("owner", point)
    play(scene)
    scene.check()


@pytest.mark.parametrize("point", READER)
def test_a_reader_of_a_dead_owner_dies(scene: Scene, point: str) -> None:
    scene.arm("reader", point)
    play(scene, heir="reader")
    scene.check()


@pytest.mark.parametrize("point", HEIR)
def test_who_takes_the_keepers_place_dies(scene: Scene, point: str) -> None:
    owner = scene.write("owner", 5, 2)
    scene.write("reader", 5, 3)
    assert owner is not None
    assert scene.tell("reader", "read", *owner) == [2]
    for name in ("owner", "reader"):
        scene.arm(name, point)
    scene.kill("keeper")
    scene.tell("owner", "grow", 8)
    scene.tell("reader", "grow", 8)
    scene.check()


def test_keeper_and_owner_die_at_once_while_another_reads(scene: Scene) -> None:
    owner = scene.write("owner", 5, 2)
    assert owner is not None
    number, pages = owner
    assert scene.tell("reader", "read", number, pages) == [2]
    for name in ("keeper", "owner"):
        scene.kill(name)
    wait_until(
        lambda: (
            not scene.tell("reader", "grow", ALL)
            and scene.members["reader"].does("counters")["own"] == ALL - len(pages)
        ),
        "all is handed out but what is read",
    )
    scene.tell("reader", "write", ALL - len(pages), 9)
    assert scene.tell("reader", "look", pages) == [2]
    scene.check()
