"""Pages in three tiers, as an engine moves them: arrays stand for the memory of each."""

from __future__ import annotations

import numpy as np
import pytest

from omniflow_core import (
    EntryHasChildren,
    ForeignRun,
    InvalidArgument,
    OutOfPages,
    PageAllocator,
    PageMove,
    PageTiers,
    UnknownEntry,
    UnknownMove,
)


class Machine:
    """Allocators, tiers, and what lies in the pages of each."""

    def __init__(self, device: int, host: int, disk: int) -> None:
        sizes = {"device": device, "host": host, "disk": disk}
        self.pools = {tier: PageAllocator(pages, reserved=0) for tier, pages in sizes.items()}
        self.memory = {tier: np.zeros(pages, np.int64) for tier, pages in sizes.items()}
        self.tiers = PageTiers(self.pools["device"], self.pools["host"], self.pools["disk"])

    def compute(self, contents: list[int], chance: float = 0.5) -> list[int]:
        with self.pools["device"].allocate(len(contents)) as run:
            self.memory["device"][memoryview(run).tolist()] = contents
            return self.tiers.insert(run, 0, len(contents), recompute_us=100, bytes=64, chance=chance)

    def perform(self, moves: list[PageMove]) -> None:
        for move in moves:
            (source, page), (target, place) = move.source, move.target
            self.memory[target][place] = self.memory[source][page]
            assert self.tiers.finish(move.id) == move.entry

    def make_room(self, tier: str, pages: int) -> list[int]:
        room = self.tiers.make_room(tier, pages)
        self.perform(room.begun)
        return room.dropped

    def check(self) -> None:
        self.tiers.check()
        for pool in self.pools.values():
            pool.check()


def test_what_was_moved_away_comes_back_as_it_was() -> None:
    machine = Machine(4, 2, 4)
    first = machine.compute([11, 12])
    assert machine.make_room("device", 4) == []
    assert machine.make_room("host", 2) == []
    second = machine.compute([21, 22])
    machine.make_room("device", 4)
    assert [machine.tiers.counters(tier)[0] for tier in ("device", "host", "disk")] == [0, 2, 2]
    acquired = machine.tiers.acquire(first + second)
    assert sorted(move.source[0] for move in acquired.begun) == ["disk", "disk", "host", "host"]
    machine.perform(acquired.begun)
    assert machine.memory["device"][memoryview(acquired.run).tolist()].tolist() == [11, 12, 21, 22]
    with pytest.raises(OutOfPages):
        acquired.run.extend(1)
    acquired.run.release()
    machine.check()


def test_who_is_worth_least_leaves_first_and_whole_sequences_from_their_end() -> None:
    machine = Machine(4, 1, 1)
    unlikely = machine.compute([1, 2], chance=0.1)
    likely = machine.compute([3, 4], chance=0.9)
    machine.tiers.set_worth(likely[1], recompute_us=0, bytes=64, chance=0.9)
    room = machine.tiers.make_room("device", 1)
    assert [move.entry for move in room.begun] == [likely[1]]
    assert (room.free, room.coming) == (0, 1)
    machine.perform(room.begun)
    assert machine.tiers.residence(likely[1])[0] is None
    with pytest.raises(EntryHasChildren) as caught:
        machine.tiers.remove(unlikely[0])
    assert (caught.value.entry, caught.value.children) == (unlikely[0], 1)
    machine.check()


def test_an_aborted_move_pins_nothing_and_a_late_completion_changes_nothing() -> None:
    machine = Machine(1, 1, 1)
    (entry,) = machine.compute([5])
    (move,) = machine.tiers.make_room("device", 1).begun
    assert machine.pools["host"].counters()["pinned"] == 1
    machine.tiers.abort(move.id)
    assert machine.pools["host"].counters()["references"] == 0
    assert machine.tiers.residence(entry) == (0, None, None)
    for late in (machine.tiers.finish, machine.tiers.abort):
        with pytest.raises(UnknownMove, match="changes nothing"):
            late(move.id)
    machine.tiers.remove(entry)
    with pytest.raises(UnknownEntry, match="compute its page again"):
        machine.tiers.acquire([entry])
    assert len(machine.tiers) == 0


def test_two_who_want_the_same_page_bring_it_once() -> None:
    machine = Machine(2, 2, 2)
    entries = machine.compute([5, 6])
    machine.make_room("device", 2)
    first, second = machine.tiers.acquire(entries), machine.tiers.acquire(entries[1:])
    assert second.begun == []
    assert second.awaited == [first.begun[1].id]


def test_what_is_read_where_it_lies_cannot_leave_meanwhile() -> None:
    machine = Machine(2, 2, 2)
    entries = machine.compute([5, 6])
    machine.make_room("device", 2)
    with machine.tiers.hold("host", entries) as run:
        assert machine.memory["host"][memoryview(run).tolist()].tolist() == [5, 6]
        assert machine.make_room("host", 2) == []
        assert machine.tiers.counters("host")[0] == 2
        assert len(machine.tiers.hold("disk", entries)) == 0
    machine.make_room("host", 2)
    assert machine.tiers.counters("host")[0] == 0
    machine.check()


def test_arguments_that_can_never_be_right_are_refused() -> None:
    machine = Machine(2, 2, 2)
    with pytest.raises(InvalidArgument, match="device, host and disk"):
        machine.tiers.make_room("tape", 1)
    with pytest.raises(InvalidArgument, match="the chance is 0 to 1"):
        machine.compute([1], chance=1.5)
    with pytest.raises(ForeignRun):
        machine.tiers.insert(PageAllocator(4).allocate(1), 0, 1, recompute_us=1, bytes=1, chance=1)
    alone = PageTiers(machine.pools["device"])
    with pytest.raises(InvalidArgument, match="no host tier"):
        alone.make_room("host", 1)
