"""Pages between real processes, one or both of which die: no wrong byte is read, and nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator

import pytest

from tests.cluster_fixtures.data_worker import Child, Nursery
from tests.cluster_fixtures.shared_memory import no_new_names_stay

PAGES = 16
OWNER_STEPS = ("data.owner.acquired", "data.owner.pull_begun", "data.owner.chunk_sent", "data.owner.finishing")
BORROWER_STEPS = (
    "data.borrower.acquired",
    "data.borrower.pull_begun",
    "data.borrower.group_made",
    "data.borrower.chunk_received",
    "data.borrower.finishing",
    "data.borrower.releasing",
)
TYPED = ("PeerLost", "PullFailed", "StalePage")


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("stops"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def survivor(nursery: Nursery) -> Child:
    """Lives through all of it: what is left in it was left by these tests. It has done everything once."""
    child, other = nursery.start("survivor"), nursery.start("first")
    for each, peer in ((child, other), (other, child)):
        each.ask("compute", 1, PAGES)
        each.knows(peer)
    assert child.ask("pull", "first", 1, PAGES) == "right"
    assert other.ask("pull", "survivor", 1, PAGES) == "right"
    other.kill()
    child.ask("wait_idle")
    return child


@pytest.fixture
def at_rest(survivor: Child) -> Iterator[Child]:
    """Holds nothing afterwards, and has no more threads, descriptors and groups; nor has /dev/shm names."""
    before = survivor.ask("footprint")
    with no_new_names_stay():
        yield survivor
        survivor.ask("release")
        survivor.ask("wait_idle")
        survivor.ask("wait_footprint", before)


@pytest.fixture(scope="module", autouse=True)
def base_line(survivor: Child) -> Iterator[None]:
    """All tests together have left nothing in it, either."""
    before = survivor.ask("footprint")
    yield
    survivor.ask("wait_footprint", before)


def owner_of(nursery: Nursery, borrower: Child, *seeds: int) -> Child:
    owner = nursery.start("owner")
    for seed in seeds:
        owner.ask("compute", seed, PAGES)
    borrower.knows(owner)
    return owner


@pytest.mark.parametrize("step", OWNER_STEPS)
def test_an_owner_dies_at_a_step_of_a_pull(nursery: Nursery, at_rest: Child, step: str) -> None:
    owner = owner_of(nursery, at_rest, 7)
    owner.dies_at(step)
    assert at_rest.ask("pull", "owner", 7, PAGES) in TYPED
    owner.wait()
    again = owner_of(nursery, at_rest, 7)
    assert at_rest.ask("pull", "owner", 7, PAGES) == "right"
    again.kill()


@pytest.mark.parametrize("step", BORROWER_STEPS)
def test_a_borrower_dies_at_a_step_of_a_pull(nursery: Nursery, at_rest: Child, step: str) -> None:
    borrower = nursery.start("borrower")
    borrower.knows(at_rest)
    borrower.dies_at(step)
    with pytest.raises(EOFError):
        borrower.ask("pull", "survivor", 1, PAGES)
    borrower.wait()
    at_rest.ask("wait_idle")


@pytest.mark.parametrize("dying", ["owner", "borrower"])
def test_one_dies_over_a_renewal(nursery: Nursery, at_rest: Child, dying: str) -> None:
    other = owner_of(nursery, at_rest, 7)
    other.knows(at_rest)
    owner, borrower = (other, at_rest) if dying == "owner" else (at_rest, other)
    assert borrower.ask("acquire", owner.name, 7 if dying == "owner" else 1, PAGES) == PAGES
    other.dies_at(f"data.{dying}.renewed")
    other.wait()
    if dying == "owner":
        at_rest.ask("wait_lost")


def test_both_die_in_a_pull(nursery: Nursery, at_rest: Child) -> None:
    borrower = nursery.start("borrower")
    owner = owner_of(nursery, borrower, 7)
    owner.dies_at("data.owner.chunk_sent")
    borrower.dies_at("data.borrower.chunk_received")
    borrower.begin("pull", "owner", 7, PAGES)
    owner.wait()
    borrower.kill()


def test_a_borrower_that_hangs_holds_pages_until_its_lease_is_over(nursery: Nursery, at_rest: Child) -> None:
    borrower = nursery.start("borrower")
    borrower.knows(at_rest)
    assert borrower.ask("acquire", "survivor", 1, PAGES) == PAGES
    os.kill(borrower.process.pid, signal.SIGSTOP)
    at_rest.ask("wait_idle")  # it is connected all along
    os.kill(borrower.process.pid, signal.SIGCONT)
    borrower.ask("wait_lost")
    assert borrower.ask("pull", "survivor", 1, PAGES) == "right"
    borrower.kill()


def many_pulls(nursery: Nursery, survivor: Child, count: int, seed: int) -> None:
    """Between three workers, of which two die now and then, at random and at random steps."""
    chance = random.Random(seed)
    mortal = [nursery.start(name) for name in ("ada", "ben")]

    def meet() -> None:
        for child in (survivor, *mortal):
            child.knows(*(each for each in (survivor, *mortal) if each is not child))

    for each in mortal:
        each.ask("compute", 1, PAGES)
    meet()
    for _ in range(count):
        borrower, owner = chance.sample([survivor, *mortal], 2)
        kind = chance.random()
        victim = owner if owner is not survivor and (borrower is survivor or kind < 0.1) else borrower
        if victim is not survivor and kind < 0.2:
            victim.dies_at(chance.choice(OWNER_STEPS if victim is owner else BORROWER_STEPS))
        borrower.begin("pull", owner.name, 1, PAGES)
        try:
            said = borrower.finish()
        except EOFError:
            said = "died"
        assert said in ("right", "died", *TYPED)
        for index, child in enumerate(mortal):
            if said != "right" and child is victim:
                child.wait()
                mortal[index] = nursery.start(child.name)
                mortal[index].ask("compute", 1, PAGES)
                meet()
    for child in mortal:
        child.ask("wait_idle")
        child.kill()


def test_a_few_pulls_with_random_deaths(nursery: Nursery, at_rest: Child) -> None:
    many_pulls(nursery, at_rest, 40, 5)


@pytest.mark.soak
def test_ten_thousand_pulls_with_random_deaths(nursery: Nursery, at_rest: Child) -> None:
    many_pulls(nursery, at_rest, 10_000, 6)


def test_a_worker_of_the_cluster_is_not_confused_with_its_last_life(nursery: Nursery, at_rest: Child) -> None:
    """The registry still shows the dead one's address when another one has its name."""
    owner = owner_of(nursery, at_rest, 7)
    owner.kill()
    assert at_rest.ask("pull", "owner", 7, PAGES) == "PeerLost"
