"""The machines of a pool, under random work, deaths and orders of messages: one world, one promise."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.pools.world import LEASE, SHAPE, World

NUMBER = st.integers(0, 1000)
STEP = st.one_of(
    st.tuples(st.just("start")),
    st.tuples(st.just("want"), NUMBER, st.integers(1, 14)),
    st.tuples(st.just("allocate"), NUMBER, st.integers(1, 6)),
    st.tuples(st.just("release"), NUMBER, NUMBER),
    st.tuples(st.just("give back"), NUMBER),
    st.tuples(st.just("borrow"), NUMBER, NUMBER, NUMBER),
    st.tuples(st.just("end read"), NUMBER, NUMBER),
    st.tuples(st.just("kill"), NUMBER),
    st.tuples(st.just("kill keeper")),
    st.tuples(st.just("tick"), st.integers(1, LEASE)),
    st.tuples(st.just("look")),
    *[st.tuples(st.just("deliver"), NUMBER) for _ in range(6)],
    st.tuples(st.just("settle")),
)
MOST = 5


def take(world: World, step: tuple[object, ...]) -> None:
    """What a step names by number is that of those that live, counted around."""
    what, *numbers = step
    chosen = [number for number in numbers if isinstance(number, int)]
    if what == "start":
        if len(world.processes) < MOST:
            world.start()
    elif what == "deliver":
        world.deliver(chosen[0])
    elif what == "tick":
        world.tick(chosen[0])
    elif what == "look":
        world.look()
    elif what == "settle":
        world.settle()
    elif what == "kill keeper":
        if world.keeper is not None:
            world.kill(world.keeper)
    elif world.processes:
        process = world.processes[chosen[0] % len(world.processes)]
        rest = chosen[1:]
        if what == "want":
            world.want(process, rest[0])
        elif what == "allocate":
            world.allocate(process, rest[0])
        elif what == "release":
            world.release(process, rest[0])
        elif what == "give back":
            world.give_back(process)
        elif what == "borrow":
            world.borrow(process, world.processes[rest[0] % len(world.processes)], rest[1])
        elif what == "end read":
            world.end_read(process, rest[0])
        else:
            world.kill(process)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=120))
@example(
    [("kill keeper",), ("settle",), ("start",), ("kill", 1), ("deliver", 0), ("kill keeper",), ("start",)]
)  # a newcomer's keeper dies between welcoming it and taking it in
def test_whatever_dies_when_no_page_is_lost_or_handed_out_twice_or_changed_under_a_reader(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for _ in range(3):
        world.start()
    world.settle()
    for process in world.processes:
        world.want(process, 6)
    for step in steps:
        take(world, step)
        world.check()
    world.end()


def two_with_pages() -> World:
    world = World()
    for _ in range(2):
        world.start()
    world.settle()
    for process in world.processes:
        world.want(process, 4)
        world.settle()
        world.allocate(process, 3)
    return world


def test_pages_of_a_dead_owner_stay_until_their_reader_has_done_and_then_go_to_others() -> None:
    world = two_with_pages()
    keeper, other = world.processes
    world.borrow(other, keeper, 0)
    world.kill(other)
    world.settle()
    world.want(keeper, 100)
    world.settle()
    assert keeper.member is not None
    assert len(keeper.member.withheld) == 3
    world.end_read(keeper, 0)
    world.settle()
    assert not keeper.member.withheld
    world.end()


def test_a_new_book_knows_what_the_living_have_and_read_of_the_dead() -> None:
    world = two_with_pages()
    keeper, other = world.processes
    world.borrow(keeper, other, 0)
    world.kill(keeper)
    world.settle()
    assert world.book is not None
    assert world.keeper is other
    assert other.member is not None
    assert world.book.counters()["owned"] == len(other.member.extents)
    assert world.book.counters()["withheld"] == 3
    world.tick(LEASE)
    assert world.book.counters()["withheld"] == 0
    world.end()


def test_a_new_book_knows_what_is_withheld_from_the_next_owner_of_pages_that_are_still_read() -> None:
    world = two_with_pages()
    keeper, other = world.processes
    reader = world.start()
    world.settle()
    world.borrow(other, reader, 0)
    world.kill(other)
    world.settle()
    world.want(reader, 100)
    world.settle()
    assert reader.member is not None
    assert len(reader.member.withheld) == 3
    world.kill(keeper)
    world.settle()
    assert len(reader.member.withheld) == 3
    world.end_read(reader, 0)
    world.settle()
    assert not reader.member.withheld
    world.end()


def test_who_lacks_extents_hears_when_there_are_more() -> None:
    world = two_with_pages()
    one, other = world.processes
    for process in (one, other):
        world.want(process, 100)
        world.settle()
    late = world.start()
    world.settle()
    assert late.member is not None
    world.want(late, 1)
    world.settle()
    assert late.member.missing
    assert one.member is not None
    assert one.member.part == SHAPE.extents // 3, "it is asked for what is more than its part"
    world.give_back(one)
    world.settle()
    assert not late.member.missing
    world.want(late, 1)
    world.settle()
    assert late.member.extents
    world.end()


def test_who_is_still_joining_does_not_keep_the_pages_of_a_dead_owner() -> None:
    world = two_with_pages()
    _, other = world.processes
    late = world.start()
    assert world.deliver(0), "the keeper hears of it"
    assert world.deliver(0), "it hears that it is welcome"
    assert late.joining is not None
    world.kill(other)
    world.settle()
    assert late.member is not None
    assert world.book is not None
    assert world.book.counters()["orphaned"] == 0
    world.end()
