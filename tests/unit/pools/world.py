"""Processes of one host on one pool, with deaths, where only the messages, the locks and the arena are real or shared.

A process is its `Member` over its own allocator; one of them also has the `Book`. Messages lie in queues, one for each
direction of a connection, and are delivered one at a time, in any order between the queues. `kill` takes a process away
between two of its steps: what it had sent is still delivered, what was for it is lost, and the kernel drops its locks.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from omniflow_core import ArenaLayout, HostArena, OutOfPages, PageAllocator, PageRun, StalePage, UnknownLease
from omniflow_workers.pools.book import Admit, Book, Effect, GiveUp, Send
from omniflow_workers.pools.member import Member
from omniflow_workers.pools.reading import Read
from omniflow_workers.pools.shape import PoolShape
from omniflow_workers.pools.wire import Kind, Message, say

SHAPE = PoolShape(pages=38, reserved=2, extent_pages=4)
LAYOUT = ArenaLayout("pages", page_bytes=64, pages=SHAPE.pages, fingerprint=bytes(32))
ARENA = (7, 9)
LEASE = 40


class Locks:
    """The kernel's, of all processes."""

    def __init__(self) -> None:
        self.extents: dict[int, object] = {}

    def of(self, process: object) -> ProcessLocks:
        return ProcessLocks(self, process)

    def drop(self, process: object) -> None:
        self.extents = {extent: owner for extent, owner in self.extents.items() if owner is not process}


@dataclass(frozen=True)
class ProcessLocks:
    """`ExtentLocks`."""

    all: Locks
    process: object

    def take_extent(self, extent: int) -> bool:
        return self.all.extents.setdefault(extent, self.process) is self.process

    def let_go_of_extent(self, extent: int) -> None:
        del self.all.extents[extent]


@dataclass(eq=False)
class Held:
    """Pages of a process's own, with what it wrote there."""

    run: PageRun
    written: list[int]

    @property
    def pages(self) -> list[int]:
        return memoryview(self.run).tolist()


@dataclass(eq=False)
class Borrowed:
    """Pages of another process that this one reads, and what was there."""

    owner: int
    read: Read
    lease: int
    generations: bytes
    content: list[int]


@dataclass(eq=False)
class Process:
    """`peer`: its connection to the keeper; None: it looks for one. `joining`: what it is to be, once the keeper has
    said that it counts; if it loses the keeper before, it begins again."""

    number: int
    member: Member | None = None
    joining: Member | None = None
    peer: int | None = None
    held: list[Held] = field(default_factory=list)
    borrowed: list[Borrowed] = field(default_factory=list)

    @property
    def living_as(self) -> int | None:
        living = self.member or self.joining
        return living.owner if living else None


class World:
    def __init__(self) -> None:
        self.arena = HostArena.create(LAYOUT)
        self.allocators: dict[int, PageAllocator] = {}
        self.locks = Locks()
        self.processes: list[Process] = []
        self.keeper: Process | None = None
        self.book: Book | None = None
        self.to_keeper: dict[int, deque[Message]] = {}
        self.to_member: dict[int, deque[Message]] = {}
        self.process_of: dict[int, Process] = {}
        self.contents = [0] * SHAPE.pages
        self.written = 0
        self.now = 0
        self.numbers = 0
        self.refused = 0

    # What a process does.

    def start(self) -> Process:
        self.numbers += 1
        process = Process(self.numbers)
        self.processes.append(process)
        self.connect(process)
        return process

    def connect(self, process: Process) -> None:
        """To the keeper, or in its place when there is none."""
        if self.book is None:
            lost = any(each.member or (each.joining and not self._is_lost(each)) for each in self.processes)
            if process.member is None and lost:
                return  # who is no member yet waits for a survivor
            self.keeper, self.book = process, Book(ARENA, SHAPE, lost=lost)
        self.numbers += 1
        peer = process.peer = self.numbers
        self.to_keeper[peer], self.to_member[peer] = deque(), deque()
        self.process_of[peer] = process
        self.book.connected(peer)
        if process.member is None:
            self.to_keeper[peer].append(say(Kind.HELLO))
        else:
            self.say(process, process.member.claim(self.now))

    def say(self, process: Process, messages: list[Message]) -> None:
        if process.peer is not None and process.peer in self.to_keeper:
            self.to_keeper[process.peer].extend(self._over_the_wire(each) for each in messages)

    @staticmethod
    def _over_the_wire(message: Message) -> Message:
        return Message.decode(message.encode())

    def want(self, process: Process, pages: int) -> None:
        if process.member and process.peer is not None:
            self.say(process, process.member.want(pages))

    def allocate(self, process: Process, pages: int) -> None:
        if process.member is None:
            return
        try:
            run = self.allocators[process.member.owner].allocate(pages)
        except OutOfPages:
            return
        held = Held(run, [])
        self.must_be_unused(held.pages)
        for page in held.pages:
            self.written += 1
            self.contents[page] = self.written
            held.written.append(self.written)
        process.held.append(held)

    def release(self, process: Process, which: int) -> None:
        if process.held:
            process.held.pop(which % len(process.held)).run.release()

    def give_back(self, process: Process) -> None:
        if process.member:
            self.say(process, process.member.give_back(0))

    def borrow(self, owner: Process, reader: Process, which: int) -> None:
        """The owner leases, the reader registers: both live, and hear of each other directly."""
        if owner is reader or not owner.held or reader.member is None or owner.member is None:
            return
        if reader.member.claiming:
            return  # `PoolShare.reading` waits
        held = owner.held[which % len(owner.held)]
        if not held.pages:
            return
        until = self.now + LEASE
        lease = held.run.lease(reader.member.owner, until)
        read = reader.member.begin_read(owner.member.owner, np.array(held.pages, np.uint32), until)
        content = [self.contents[page] for page in held.pages]
        reader.borrowed.append(Borrowed(owner.member.owner, read, lease, held.run.generations, content))

    def end_read(self, reader: Process, which: int) -> None:
        if not reader.borrowed or reader.member is None:
            return
        borrowed = reader.borrowed.pop(which % len(reader.borrowed))
        self.say(reader, reader.member.reads.end(borrowed.read))
        owner = self.living(borrowed.owner)
        if owner is not None:
            with suppress(UnknownLease):  # it was over
                self.allocators[borrowed.owner].end_lease(borrowed.lease)

    def kill(self, process: Process) -> None:
        self.processes.remove(process)
        self.locks.drop(process)
        if process.member is not None:
            for other in self.processes:  # whose connection to the reader hangs up
                if other.member is not None:
                    self.allocators[other.member.owner].drop_holder(process.member.owner)
        if process.peer is not None:
            self.to_member.pop(process.peer, None)
        if process is self.keeper:
            # What it had said is still heard, then that it hung up.
            self.keeper = self.book = None
            self.to_keeper.clear()

    def tick(self, by: int) -> None:
        self.now += by
        for process in self.processes:
            if process.member:
                self.allocators[process.member.owner].expire(self.now)
            for borrowed in [each for each in process.borrowed if each.read.until <= self.now]:
                self.end_read(process, process.borrowed.index(borrowed))
        if self.book is not None:
            self.do(self.book.expire(self.now))

    # What the world does.

    def deliver(self, which: int) -> bool:
        """One message, or one hang-up, of those that wait. False: there is none."""
        ready = [("keeper", peer) for peer, queue in self.to_keeper.items() if queue and self.book is not None]
        ready += [("member", peer) for peer, queue in self.to_member.items() if queue]
        ready += [("hang-up", peer) for peer in self._ended() if not self.to_keeper.get(peer)]
        ready += [("lost", each.number) for each in self.processes if self._is_lost(each)]
        if not ready:
            return False
        kind, number = ready[which % len(ready)]
        if kind == "keeper":
            assert self.book is not None
            self.do(self.book.heard(number, self.to_keeper[number].popleft(), self.now))
        elif kind == "member":
            self.tell(self.process_of[number], self.to_member[number].popleft())
        elif kind == "hang-up":
            assert self.book is not None
            self.to_keeper.pop(number, None)
            del self.process_of[number]
            self.do(self.book.hung_up(number))
        else:
            self._lose_keeper(next(each for each in self.processes if each.number == number))
        return True

    def look(self) -> None:
        """What the keeper sees by itself: who lives no more, and whether all have claimed."""
        if self.book is None:
            return
        for owner in list(self.book.doubtful):
            if self.living(owner) is None:
                self.do(self.book.dead(owner))
        if self.book is not None and self.book.restoring:
            self.do(self.book.look(lambda: {each.living_as for each in self.processes if each.living_as is not None}))

    def settle(self) -> None:
        """Until nothing more happens."""
        for _ in range(10_000):
            if not self.deliver(0):
                self.look()
                if not self.deliver(0):
                    return
        raise AssertionError("it never settles")

    def living(self, owner: int) -> Process | None:
        return next((each for each in self.processes if each.living_as == owner), None)

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, message):
                    if peer in self.to_member:
                        self.to_member[peer].append(self._over_the_wire(message))
                case Admit(_):
                    pass
                case GiveUp(why):
                    raise AssertionError(f"nobody broke a connection, and yet: {why}")

    def tell(self, process: Process, message: Message) -> None:
        if message.kind is Kind.WELCOME:
            allocator = self.arena.allocator(SHAPE.reserved)
            locks = self.locks.of(process)
            process.joining = Member(message.numbers[0], ARENA, SHAPE, allocator, locks, SHAPE.extents)
            self.allocators[process.joining.owner] = allocator
            self.say(process, [say(Kind.WANT, 0)])
        elif process.joining is not None:
            self.say(process, process.joining.heard(message, self.now))
            if message.kind is Kind.ANSWERED:
                process.member, process.joining = process.joining, None
        elif process.member is not None:
            self.refused += message.kind is Kind.REFUSED
            self.say(process, process.member.heard(message, self.now))

    def _ended(self) -> list[int]:
        """Connections whose member is dead, as the keeper will hear."""
        if self.book is None:
            return []
        mine = [peer for peer, process in self.process_of.items() if process not in self.processes]
        return [peer for peer in mine if peer in self.to_keeper]

    def _is_lost(self, process: Process) -> bool:
        """Whether it has heard all that its keeper said, and that it is gone."""
        return process.peer is None or (process.peer not in self.to_keeper and not self.to_member.get(process.peer))

    def _lose_keeper(self, process: Process) -> None:
        if process.peer is not None:
            self.to_member.pop(process.peer, None)
            self.process_of.pop(process.peer, None)
            process.peer = process.joining = None
            if process.member:
                process.member.asking = False
        self.connect(process)

    # What must hold.

    def must_be_unused(self, pages: list[int]) -> None:
        """Nobody living uses them, or reads them under a lease that has not ended."""
        for process in self.processes:
            for held in process.held:
                assert not set(held.pages) & set(pages), "pages were handed out twice"
            for borrowed in process.borrowed:
                if borrowed.read.until > self.now:
                    assert not set(borrowed.read.pages.tolist()) & set(pages), (
                        "pages were handed out while they are read"
                    )

    def check(self) -> None:
        if self.book is not None:
            self.book.check()
        for process in self.processes:
            if process.member is None:
                continue
            process.member.check()
            for held in process.held:
                assert [self.contents[page] for page in held.pages] == held.written
            for borrowed in process.borrowed:
                self._check_read(borrowed)

    def _check_read(self, borrowed: Borrowed) -> None:
        pages = borrowed.read.pages
        try:
            self.arena.verify_all(pages, np.frombuffer(borrowed.generations, np.uint64))
        except StalePage:
            assert borrowed.read.until <= self.now, "a page was freed under its lease"
            return
        assert [self.contents[page] for page in borrowed.read.pages] == borrowed.content

    def end(self) -> None:
        """All work ends: every extent is free again, and nothing is withheld or orphaned."""
        self.settle()
        for process in self.processes:
            while process.borrowed:
                self.end_read(process, 0)
            while process.held:
                self.release(process, 0)
        self.settle()
        for process in self.processes:
            self.give_back(process)
        self.settle()
        self.check()
        assert self.refused == 0
        assert len(self.locks.extents) == 0
        for process in self.processes:
            assert process.member is not None, "it was never taken in"
            assert len(process.member.reads) == 0
            counted = self.allocators[process.member.owner].counters()
            assert counted["own"] == counted["held"] == counted["leases"] == 0
        if self.processes:
            assert self.book is not None
            counters = self.book.counters()
            assert counters["owners"] == len(self.processes)
            assert counters["free"] == counters["extents"] == SHAPE.extents
            assert counters["withheld"] == counters["orphaned"] == 0
