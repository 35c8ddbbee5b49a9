"""The planner over real pages: a pool that holds token ids instead of KV shows whether each page is what it must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_core import KeyChain, PageAllocator, PageKeys, PageRun, PrefixIndex
from omniflow_workers.engines.planner import Limits, Planner, Work
from omniflow_workers.engines.sequence import Phase, Sequence, page_ids

PAGE = 4
LENT = 32  # pages of another worker, behind those of this one's allocator


class Lent:
    """The first pages of a prompt, as another worker has them in the same pool."""

    def __init__(self, pages: list[int]) -> None:
        self.pages = np.asarray(pages, np.uint32)
        self.released = 0

    def verify(self) -> None:
        """The planner leaves that to the loop."""

    def release(self) -> None:
        self.released += 1


class Slow:
    """Keeps what it is offered elsewhere, some day."""

    def __init__(self) -> None:
        self.offered: list[int] = []
        self.held: list[PageRun] = []

    def offer(self, keys: PageKeys, run: PageRun) -> None:
        self.offered.append(len(keys))
        self.held.append(run.share(len(keys)))

    def give_way(self) -> bool:
        held, self.held = self.held, []
        for run in held:
            run.release()
        return bool(held)


class World:
    """A planner, and a pool whose slots hold the token that was computed there."""

    def __init__(
        self, pages: int = 64, context: int = 1000, limits: Limits | None = None, keeper: Slow | None = None
    ) -> None:
        self.allocator = PageAllocator(pages)
        self.index = PrefixIndex(self.allocator)
        self.planner = Planner(
            self.allocator,
            self.index,
            PAGE,
            context,
            lambda tenant: KeyChain("model", "layout", PAGE, tenant.encode()),
            limits or Limits(running=4, step_tokens=16, mixed_tokens=8),
            keeper=keeper,
        )
        self.slots = np.full((pages + LENT) * PAGE, -1, np.int64)
        self.computed = 0

    def lent(self, prompt: list[int], count: int) -> Lent:
        """Another worker has computed so many pages of the prompt."""
        own = self.allocator.total_pages
        pages = [own + LENT - 1 - i for i in range(count)]
        for i, page in enumerate(pages):
            self.slots[page * PAGE : (page + 1) * PAGE] = prompt[i * PAGE : (i + 1) * PAGE]
        return Lent(pages)

    def pulled(self, sequence: Sequence, count: int, *, in_index: bool) -> None:
        """So many of its pages came from another worker. Not `in_index`: it has had others of that content before."""
        run = self.allocator.allocate(count)
        for i, page in enumerate(page_ids(run)):
            self.slots[page * PAGE : (page + 1) * PAGE] = sequence.tokens[i * PAGE : (i + 1) * PAGE]
        if in_index:
            chain = KeyChain("model", "layout", PAGE, b"")
            chain.extend(np.asarray(sequence.tokens[: count * PAGE], np.int64))
            self.index.insert(chain, run)
        sequence.kept, sequence.pulled = run, count * PAGE

    def sequence(self, prompt: list[int], new: int = 4, tenant: str = "", borrowed: Lent | None = None) -> Sequence:
        sequence = Sequence(f"s{prompt[:2]}", list(prompt), new, tenant=tenant, borrowed=borrowed)
        self.planner.add(sequence)
        return sequence

    def step(self) -> list[Work]:
        """Computes what is planned, having checked that all that comes before it is in the pages; draws id + 1."""
        work = self.planner.plan()
        written: set[int] = set()
        for each in work:
            if each.sequence.source is not None:
                known = page_ids(each.sequence.source)
                pool = self.slots.reshape(-1, PAGE)
                pool[each.sequence.pages[: len(known)]] = pool[known]
            tokens, pages = each.sequence.tokens, each.sequence.pages
            assert 0 not in pages
            place = [int(pages[i // PAGE]) * PAGE + i % PAGE for i in range(each.start + each.count)]
            assert list(self.slots[place[: each.start]]) == tokens[: each.start]
            for i in range(each.start, each.start + each.count):
                assert place[i] not in written, "two sequences write one slot"
                written.add(place[i])
                self.slots[place[i]] = tokens[i]
            self.computed += each.count
            assert each.samples == (each.start + each.count == len(tokens) and each.sequence.draws)
        self.planner.computed(work)
        for each in work:
            if each.samples:
                self.planner.append(each.sequence, each.sequence.tokens[-1] + 1)
            said_all = each.sequence.generated == each.sequence.max_new_tokens
            if said_all and each.sequence.phase in (Phase.DECODING, Phase.PREFILLED):
                self.planner.end(each.sequence)
        self.planner.check()
        return work

    def run(self) -> None:
        steps = 0
        while not self.planner.idle:
            assert self.step(), "something waits and nothing is planned"
            steps += 1
            assert steps < 2000


def test_a_hit_skips_the_full_pages_it_shares() -> None:
    world = World()
    world.sequence(list(range(10)), new=1)
    world.run()
    again = world.sequence([*range(10), 77, 78])
    world.step()
    assert again.reused == 8
    world.run()


def test_a_hit_leaves_the_sequence_on_consecutive_pages_of_its_own() -> None:
    world = World()
    world.sequence(list(range(10)), new=1)
    world.run()
    again = [world.sequence([*range(8), 70 + i, 80]) for i in range(3)]
    world.step()
    for sequence in again:
        assert sequence.reused == 8
        assert list(np.diff(sequence.pages.astype(np.int64))) == [1] * (len(sequence.pages) - 1)
    world.run()
    world.index.make_room(world.allocator.total_pages - world.allocator.reserved_pages)


def test_a_hit_shares_the_pages_when_there_is_no_room_to_copy_them() -> None:
    world = World(pages=8)
    world.sequence(list(range(13)), new=1)
    world.run()
    again = world.sequence([*range(12), 77, 78], new=6)
    world.step()
    assert again.reused == 12
    assert again.source is None
    world.run()


def test_what_is_computed_is_offered_to_whoever_keeps_it_and_held_no_longer_than_pages_are_free() -> None:
    keeper = Slow()
    world = World(pages=8, keeper=keeper)
    world.sequence(list(range(10)), new=7)
    world.run()
    assert keeper.offered == [2, 4]
    world.sequence(list(range(100, 116)), new=8)
    world.run()
    assert len(keeper.held) == 2, "those of the second one"
    keeper.give_way()
    world.index.make_room(7)
    assert world.allocator.counters()["held"] == 0


def test_a_prompt_of_known_pages_only_still_computes_its_last_token() -> None:
    world = World()
    world.sequence(list(range(8)), new=1)
    world.run()
    again = world.sequence(list(range(8)), new=1)
    work = world.step()
    assert again.reused == 4
    assert [(each.start, each.count) for each in work] == [(4, 4)]


def test_a_next_turn_reuses_the_answer_too() -> None:
    world = World()
    first = world.sequence(list(range(5)), new=12)
    world.run()
    second = world.sequence([*first.tokens, 500])
    world.step()
    assert second.reused == 16  # 17 tokens, the last of them never computed


def test_tenants_do_not_share_pages() -> None:
    world = World()
    world.sequence(list(range(10)), new=1, tenant="a")
    world.run()
    other = world.sequence(list(range(10)), tenant="b")
    world.step()
    assert other.reused == 0


def test_a_long_prompt_is_computed_in_chunks_beside_a_decoding_sequence() -> None:
    world = World()
    first = world.sequence([1, 2, 3], new=20)
    world.step()
    world.sequence(list(range(100, 130)), new=2)
    work = world.step()
    assert [(each.sequence is first, each.count) for each in work] == [(True, 1), (False, 8)]


def test_the_youngest_gives_way_when_pages_run_short_and_loses_nothing() -> None:
    world = World(pages=9)  # 8 to hand out: 32 tokens
    old = world.sequence(list(range(10)), new=14)
    young = world.sequence(list(range(100, 110)), new=14)
    world.run()
    assert young.preemptions > 0
    assert old.preemptions == 0
    assert old.tokens == list(range(24))
    assert young.tokens == list(range(100, 124))


def test_a_cancelled_sequence_gives_its_pages_back_at_once() -> None:
    world = World()
    sequence = world.sequence(list(range(30)), new=8)
    world.step()
    world.planner.end(sequence, remember=False)
    assert world.allocator.free_pages == 63
    assert sequence.phase is Phase.ENDED


def test_a_sequence_that_can_never_fit_is_refused() -> None:
    world = World(pages=3)
    with pytest.raises(ValueError, match="8 to 12 tokens"):
        world.sequence(list(range(8)), new=4)


def test_borrowed_pages_are_used_where_they_lie_and_only_what_comes_after_them_is_computed() -> None:
    world = World()
    prompt = list(range(11))
    lent = world.lent(prompt, 2)
    sequence = world.sequence(prompt, new=6, borrowed=lent)
    assert [(each.start, each.count) for each in world.step()] == [(8, 3)]
    assert list(sequence.pages[:2]) == list(lent.pages)
    assert (sequence.mapped, sequence.reused, lent.released) == (8, 0, 0)
    world.run()
    assert sequence.tokens == list(range(17))
    assert lent.released == 1
    assert len(world.index) == 0, "a page of another worker is none of this index's"
    assert world.allocator.free_pages == 63


def test_borrowed_pages_go_back_when_as_many_are_known_here() -> None:
    world = World()
    prompt = list(range(11))
    world.sequence(prompt, new=1)
    world.run()
    lent = world.lent(prompt, 2)
    sequence = world.sequence(prompt, new=1, borrowed=lent)
    world.step()
    assert (sequence.mapped, sequence.reused, lent.released) == (0, 8, 1)


def test_the_last_token_of_a_prompt_is_computed_here_even_when_all_its_pages_were_borrowed() -> None:
    world = World()
    prompt = list(range(8))
    sequence = world.sequence(prompt, borrowed=world.lent(prompt, 2))
    assert [(each.start, each.count) for each in world.step()] == [(4, 4)]
    assert sequence.mapped == 4


def test_a_sequence_whose_borrowed_pages_are_stale_is_computed_anew_without_them() -> None:
    world = World()
    prompt = list(range(11))
    lent = world.lent(prompt, 2)
    sequence = world.sequence(prompt, new=6, borrowed=lent)
    world.step()
    world.step()
    said = list(sequence.tokens)
    world.slots[64 * PAGE :] = -7
    world.planner.start_over(sequence)
    world.planner.check()
    assert lent.released == 1
    assert sequence.tokens == said
    world.run()
    assert sequence.tokens == list(range(17))
    assert sequence.mapped == 0


def test_a_preempted_sequence_lets_go_of_what_it_borrowed() -> None:
    world = World(pages=8)  # 7 to hand out: 28 tokens
    old = world.sequence(list(range(9)), new=14)
    prompt = list(range(100, 110))
    lent = world.lent(prompt, 2)
    young = world.sequence(prompt, new=14, borrowed=lent)
    world.run()
    assert young.preemptions > 0
    assert lent.released == 1
    assert old.tokens == list(range(23))
    assert young.tokens == list(range(100, 124))


def test_a_waiting_sequence_that_is_ended_lets_go_of_what_it_borrowed() -> None:
    world = World()
    prompt = list(range(11))
    lent = world.lent(prompt, 2)
    world.planner.end(world.sequence(prompt, borrowed=lent))
    assert lent.released == 1


def test_a_prompt_without_an_answer_is_computed_and_its_pages_are_known_afterwards() -> None:
    world = World()
    prompt = list(range(24))
    world.sequence(prompt, new=0)
    world.run()
    assert world.computed == 24
    assert len(world.index) == 6
    after = world.sequence([*prompt, 77], new=1)
    world.step()
    assert after.reused == 24


@pytest.mark.parametrize("in_index", [True, False])
def test_pages_that_were_pulled_for_those_who_wait_give_way_when_nothing_runs(in_index: bool) -> None:
    world = World(pages=9)  # 8 to hand out, all of them pulled
    waiting = [world.sequence(list(range(start, start + 17))) for start in (0, 100)]
    for sequence in waiting:
        world.pulled(sequence, 4, in_index=in_index)
    world.run()
    assert [each.tokens for each in waiting] == [list(range(21)), list(range(100, 121))]
    assert waiting[0].pulled == (16 if in_index else 0)
    world.index.evict(8)
    assert world.allocator.free_pages == 8


def test_pages_that_were_pulled_for_the_only_one_who_waits_give_way_when_they_are_in_its_way() -> None:
    world = World(pages=7)  # 6 to hand out
    sequence = world.sequence(list(range(17)))
    world.pulled(sequence, 4, in_index=False)
    world.run()
    assert sequence.tokens == list(range(21))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),  # which family of prefixes
            st.integers(1, 25),  # prompt length
            st.integers(0, 8),  # answer length
            st.integers(0, 4),  # steps before it comes
            st.integers(0, 12),  # cancelled after so many steps; late: never
            st.booleans(),  # whether another worker lends its pages
        ),
        max_size=12,
    ),
    st.integers(10, 40),
)
@settings(deadline=None, max_examples=150)
def test_every_sequence_ends_right_and_every_page_comes_back(
    arrivals: list[tuple[int, int, int, int, int, bool]], pages: int
) -> None:
    world = World(pages=pages)
    asked: list[tuple[Sequence, int]] = []
    borrowed: list[Lent] = []
    lent_before: set[int] = set()
    for family, length, new, wait, cancel, lends in arrivals:
        for _ in range(wait):
            world.step()
        prompt = [family * 1000 + i for i in range(length)]
        lent = None
        if lends and not lent_before - {family}:  # all are lent the same pages
            lent_before.add(family)
            lent = world.lent(prompt, length // PAGE)
            borrowed.append(lent)
        sequence = world.sequence(prompt, new, borrowed=lent)
        asked.append((sequence, cancel))
        for each, steps in asked:
            if steps == len(asked) and each.phase is not Phase.ENDED:
                world.planner.end(each)
        world.planner.check()
    world.run()
    for sequence, _ in asked:
        assert sequence.phase is Phase.ENDED
        first = sequence.tokens[0]
        assert sequence.tokens == [first + i for i in range(len(sequence.tokens))]
    assert [each.released for each in borrowed] == [1] * len(borrowed)
    world.index.evict(pages)
    assert world.allocator.free_pages == pages - 1
    assert len(world.index) == 0
