"""Which sequence computes what in the next step, on which pages. Pure state: no tensor, no clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from omniflow_core import KeyChain, OutOfPages, PageAllocator, PageKeys, PageRun, PrefixIndex
from omniflow_workers.engines.sequence import Phase, Sequence, no_pages, page_ids


@dataclass(frozen=True, slots=True)
class Limits:
    """`running`: sequences that hold pages at once; `step_tokens`: tokens of one step; `mixed_tokens`: prompt tokens of
    a step that decodes too, so that a long prompt does not hold up the answers that others are reading."""

    running: int = 16
    step_tokens: int = 512
    mixed_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Work:
    """Compute `count` tokens of `sequence` from position `start`. `samples`: its next token is drawn after it."""

    sequence: Sequence
    start: int
    count: int
    samples: bool


class Pool(Protocol):
    """Where an allocator's pages come from."""

    @property
    def limit(self) -> int:
        """The most pages that the allocator can ever have."""

    def grow(self, pages: int) -> bool:
        """Has the allocator get more pages, until so many are free. False: there are no more now."""

    def shrink(self) -> int:
        """Gives back what is not used. How many pages."""


class FixedPool:
    """The allocator has all there are."""

    def __init__(self, allocator: PageAllocator) -> None:
        self.limit: Final = allocator.total_pages - allocator.reserved_pages

    def grow(self, pages: int) -> bool:
        return False

    def shrink(self) -> int:
        return 0


class Keeper(Protocol):
    """Keeps elsewhere what was computed."""

    def offer(self, keys: PageKeys, run: PageRun) -> None:
        """The first pages of `run` have these keys, and are written to no more. Never waits; what it holds of them
        beyond this call, it shares."""

    def give_way(self) -> bool:
        """Lets go of pages that it holds, as they are needed. Whether it held any."""


class Planner:
    """Admits, feeds and ends sequences on the pages of one pool.

    Decoding comes first and the oldest sequence first. Who comes late gives way: when pages run short, unused
    reservations go, then pages nobody holds are evicted from the prefix index, then the youngest sequence is preempted
    (its tokens stay, its KV is computed again later), then what was pulled for those who wait goes. So the oldest
    always gets on, where other workers leave it pages.

    A sequence may begin with pages that are borrowed from another worker. What it computes after them never comes into
    the index, which knows pages of the allocator alone.
    """

    def __init__(
        self,
        allocator: PageAllocator,
        index: PrefixIndex,
        page_tokens: int,
        context_tokens: int,
        new_chain: Callable[[str], KeyChain],
        limits: Limits,
        pool: Pool | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`new_chain`: an empty chain of page keys for a tenant; `pool`: where more pages come from; `keeper`: is
        offered what comes into the index."""
        self._allocator = allocator
        self._index = index
        self._page_tokens = page_tokens
        self._new_chain = new_chain
        self._limits = limits
        self._pool = pool or FixedPool(allocator)
        self._keeper = keeper
        self.capacity = min(context_tokens, self._pool.limit * page_tokens)
        """The longest sequence that can ever be computed, in tokens."""
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # oldest first

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def add(self, sequence: Sequence) -> None:
        """Queues a new sequence, of whose answer some tokens may be known already; `final_tokens` must be within
        `capacity`, the prompt not empty."""
        room = len(sequence.tokens) < sequence.final_tokens or not sequence.draws
        if not (0 < sequence.prompt_tokens <= len(sequence.tokens) and room and sequence.final_tokens <= self.capacity):
            raise ValueError(f"{sequence.name}: {sequence.prompt_tokens} to {sequence.final_tokens} tokens")
        self.waiting.append(sequence)

    def plan(self) -> list[Work]:
        """The next step; empty when there is nothing to do. Copy `source` pages, compute, and call `computed`."""
        work = [
            Work(sequence, sequence.computed, 1, samples=True)
            for sequence in list(self.running)
            if sequence.phase is Phase.DECODING and self._grow(sequence)
        ]
        budget = self._limits.step_tokens - len(work)
        if work:
            budget = min(budget, self._limits.mixed_tokens)
        for sequence in self.running:
            if sequence.phase is Phase.PREFILLING and budget > 0:
                budget -= self._feed(sequence, budget, work)
        self._admit(budget, work)
        # Nothing runs that could give way: what was pulled for those who wait may be all there is.
        for hoarding in (list(self.waiting)[1:], list(self.waiting)[:1]):
            if not self.running and _let_go_of_kept(hoarding):
                self._admit(budget, work)
        return work

    def computed(self, work: Items[Work]) -> None:
        """The KV of these tokens is in their pages."""
        for each in work:
            sequence = each.sequence
            sequence.computed += each.count
            if sequence.source is not None:
                sequence.source.release()
                sequence.source = None
            if sequence.phase is Phase.PREFILLING and sequence.computed == len(sequence.tokens):
                sequence.phase = Phase.DECODING if sequence.draws else Phase.PREFILLED
                self._remember(sequence)

    def append(self, sequence: Sequence, token: int) -> None:
        """The next token of a sequence, drawn from the scores of its last."""
        assert sequence.chain is not None
        sequence.tokens.append(token)
        sequence.chain.append(token)

    def end(self, sequence: Sequence, *, remember: bool = True) -> None:
        """Gives its pages back. With `remember` the full ones stay in the index, for whoever begins with them."""
        if sequence.phase is Phase.WAITING:
            self.waiting.remove(sequence)
            return_borrowed(sequence)
        elif sequence.phase is not Phase.ENDED:
            self.running.remove(sequence)
            self._give_back(sequence, remember=remember)
        sequence.phase = Phase.ENDED

    def start_over(self, sequence: Sequence) -> None:
        """What it was computed from is no more what it was: it waits to be computed anew, without borrowed pages."""
        self.running.remove(sequence)
        self._give_back(sequence, remember=False)
        sequence.phase, sequence.mapped = Phase.WAITING, 0
        self.waiting.appendleft(sequence)

    def rest(self) -> None:
        """Nothing is to be done for now: others may have the pages that are not in use."""
        self._pool.shrink()

    def check(self) -> None:
        """Verifies what must hold between steps. Raises `AssertionError`, or `CorruptState` from the core."""
        self._allocator.check()
        self._index.check()
        for sequence in self.running:
            assert sequence.run is not None
            assert len(sequence.pages) == len(sequence.first) + len(sequence.run)
            assert len(sequence.pages) >= self._pages(len(sequence.tokens) - 1)
            assert sequence.computed <= len(sequence.tokens)
        for sequence in self.waiting:
            assert sequence.run is None
            assert sequence.source is None
            assert sequence.computed == len(sequence.first) == 0

    def _admit(self, budget: int, work: list[Work]) -> None:
        """Those who wait begin, in their order, as long as there is room."""
        while self.waiting and budget > 0 and len(self.running) < self._limits.running and self._start(self.waiting[0]):
            sequence = self.waiting.popleft()
            self.running.append(sequence)
            budget -= self._feed(sequence, budget, work)

    def _feed(self, sequence: Sequence, budget: int, work: list[Work]) -> int:
        count = min(budget, len(sequence.tokens) - sequence.computed)
        last = sequence.computed + count == len(sequence.tokens)
        work.append(Work(sequence, sequence.computed, count, samples=last and sequence.draws))
        return count

    def _start(self, sequence: Sequence) -> bool:
        """Gives a waiting sequence its pages: those that are known already, and new ones for the rest."""
        chain = self._new_chain(sequence.tenant)
        chain.extend(np.asarray(sequence.tokens, np.int64))
        # At least the last token is computed, since its scores are needed.
        most = (len(sequence.tokens) - 1) // self._page_tokens
        match = self._index.match(chain, max_pages=most)
        run, known = match.run(), match.pages
        match.release()
        borrowed = self._borrowed(sequence, known, most)
        if borrowed:
            run.release()
            run, known = self._allocator.allocate(0), borrowed
        sequence.run, sequence.chain = run, chain
        needed, final = self._pages(len(sequence.tokens)) - known, self._pages(sequence.final_tokens) - known
        # Room for the whole answer, if it can be had, keeps the run's ids consecutive: attention reads it in place.
        own = known > 0 and not borrowed and self._take_own(sequence)
        if not own and not self._extend(sequence, final) and not self._extend(sequence, needed):
            self._trim()
            if not self._extend(sequence, needed):
                run.release()
                sequence.run = sequence.chain = None
                sequence.first = no_pages()
                return False
        self._account(sequence, known * self._page_tokens)
        sequence.phase = Phase.PREFILLING
        return True

    def _borrowed(self, sequence: Sequence, known: int, most: int) -> int:
        """How many of its borrowed pages it begins with: none when `known` pages here do as well."""
        if sequence.borrowed is None:
            return 0
        pages = sequence.borrowed.pages[:most]
        if len(pages) <= known:
            return_borrowed(sequence)
            return 0
        sequence.first = pages
        return len(pages)

    def _account(self, sequence: Sequence, found: int) -> None:
        """It begins after `found` tokens. What it reports is what it began with first."""
        sequence.computed = found
        if not sequence.preemptions:
            of_prompt = min(found, sequence.prompt_tokens)
            if len(sequence.first):
                sequence.mapped, sequence.reused, sequence.pulled = of_prompt, 0, 0
            else:
                sequence.pulled = min(sequence.pulled, of_prompt)
                sequence.reused = of_prompt - sequence.pulled
        _let_go_of_kept([sequence])

    def _take_own(self, sequence: Sequence) -> bool:
        """Takes consecutive pages for all of it, to which the known ones are copied once.

        Shared pages would have to be gathered again in every layer of every step. Measured for 8 answers at 540 tokens
        whose first page is shared: 181 ms a step, 140 ms on pages of their own; copying a page takes 0.4 ms, once.
        """
        pages = self._pages(sequence.final_tokens)
        try:
            self._make_room(pages)
            run = self._allocator.allocate(pages)
        except OutOfPages:
            return False
        if len(run.spans()) > 1:
            run.release()
            return False
        sequence.source, sequence.run, sequence.pages = sequence.run, run, page_ids(run)
        return True

    def _grow(self, sequence: Sequence) -> bool:
        """Makes room for the KV of its latest token. False: it was preempted itself."""
        needed = self._pages(len(sequence.tokens)) - len(sequence.pages)
        if needed <= 0 or self._extend(sequence, needed):
            return True
        self._trim()
        while not self._extend(sequence, needed):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        return True

    def _extend(self, sequence: Sequence, pages: int) -> bool:
        assert sequence.run is not None
        try:
            self._make_room(pages)
            sequence.run.extend(pages)
        except OutOfPages:
            return False
        _list_pages(sequence)
        return True

    def _make_room(self, pages: int) -> None:
        """Raises `OutOfPages`. What nobody uses comes before what somebody may use again."""
        if self._allocator.free_pages >= pages or self._pool.grow(pages):
            return
        try:
            self._index.make_room(pages)
        except OutOfPages:
            if self._keeper is None or not self._keeper.give_way():
                raise
            self._index.make_room(pages)

    def _trim(self) -> None:
        """Takes back what running sequences have reserved and not used."""
        for sequence in self.running:
            assert sequence.run is not None
            sequence.run.truncate(self._pages(len(sequence.tokens)) - len(sequence.first))
            _list_pages(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._give_back(sequence, remember=True)
        sequence.phase = Phase.WAITING
        sequence.preemptions += 1
        self.waiting.appendleft(sequence)

    def _give_back(self, sequence: Sequence, *, remember: bool) -> None:
        assert sequence.run is not None
        if remember:
            self._remember(sequence)
        if sequence.source is not None:
            sequence.source.release()
        sequence.run.release()
        sequence.run = sequence.source = sequence.chain = None
        sequence.first = sequence.pages = no_pages()
        sequence.computed = 0
        return_borrowed(sequence)

    def _remember(self, sequence: Sequence) -> None:
        """Puts the full pages that are completely computed into the index."""
        if len(sequence.first):
            return
        assert sequence.run is not None
        assert sequence.chain is not None
        full = sequence.computed // self._page_tokens
        self._index.insert(sequence.chain, sequence.run, max_pages=full)
        if self._keeper is not None and full:
            self._keeper.offer(sequence.chain.keys[:full], sequence.run)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self._page_tokens)


def _list_pages(sequence: Sequence) -> None:
    assert sequence.run is not None
    own = page_ids(sequence.run)
    sequence.pages = np.concatenate((sequence.first, own)) if len(sequence.first) else own


def _let_go_of_kept(sequences: Items[Sequence]) -> bool:
    """The index may give the pages that were pulled for these to whoever needs them. Whether there are any."""
    found = [each for each in sequences if each.kept is not None]
    for sequence in found:
        assert sequence.kept is not None
        sequence.kept.release()
        sequence.kept = None
    return bool(found)


def return_borrowed(sequence: Sequence) -> None:
    """Lets go of what was got for it from elsewhere: it is not computed, or computed without that."""
    for held in (sequence.borrowed, sequence.kept):
        if held is not None:
            held.release()
    sequence.borrowed = sequence.kept = None
