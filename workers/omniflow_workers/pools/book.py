"""The book of a pool, as its keeper has it: what it does and says when it hears something. Pure state, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, field

from omniflow_core import ExtentError, Extents, OutOfExtents, UnknownLease
from omniflow_workers.pools.claims import Claims
from omniflow_workers.pools.clock import new_owner
from omniflow_workers.pools.shape import PoolShape
from omniflow_workers.pools.wire import MOST_NUMBERS, Kind, Message, in_parts, say


@dataclass(frozen=True, slots=True)
class Send:
    """To be sent to a peer."""

    peer: int
    message: Message


@dataclass(frozen=True, slots=True)
class Admit:
    """The arena is to be offered to a peer."""

    peer: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The book is no longer what its members know: all must claim anew, from whoever keeps the next one."""

    why: str


Effect = Send | Admit | GiveUp


@dataclass(slots=True)
class _Peer:
    """What one connection has said so far. `owner`: None before it is a member."""

    owner: int | None = None
    reads: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)
    """(owner, pages, until) of a report that is not complete."""


class Book:
    """Members are known by the number of their connection, `peer`; a connection is the member's whole life with this
    keeper. Each method returns what is to be done, in order."""

    def __init__(self, arena: tuple[int, int], shape: PoolShape, *, lost: bool) -> None:
        """`lost`: there was another keeper, whose members will claim what they have."""
        self.shape = shape
        self._arena = arena
        self._extents = Extents(shape.pages, shape.extent_pages, shape.reserved)
        self._claims: Claims | None = Claims(arena) if lost else None
        self._newest = 0
        self._peers: dict[int, _Peer] = {}
        self._peer_of: dict[int, int] = {}
        self._doubtful: set[int] = set()
        self._hellos: list[int] = []
        self._of: dict[int, set[int]] = {}
        """Extents of each owner, also of a dead one until all have reported."""
        self._awaited: dict[int, set[int]] = {}
        """Of each dead owner: who has not reported what it reads of it."""
        self._lacking: set[int] = set()
        """Owners to whom extents are missing."""

    @property
    def restoring(self) -> bool:
        """Whether claims are still awaited."""
        return self._claims is not None

    @property
    def doubtful(self) -> Set[int]:
        """Owners whose connection has gone: `dead` says that they have, too."""
        return self._doubtful

    @property
    def next_expiry(self) -> int | None:
        """When `expire` has something to do next."""
        return self._extents.next_expiry

    def counters(self) -> dict[str, int]:
        return self._extents.counters()

    def check(self) -> None:
        """Raises `CorruptState`, `AssertionError`."""
        self._extents.check()
        for owner in self._peer_of:
            assert owner not in self._doubtful
        for owner, extents in self._of.items():
            assert all(self._extents.owner_of(extent) in (owner, None) for extent in extents)

    def connected(self, peer: int) -> None:
        self._peers[peer] = _Peer()

    def hung_up(self, peer: int) -> list[Effect]:
        """The connection has gone, from either side."""
        gone = self._peers.pop(peer)
        if peer in self._hellos:
            self._hellos.remove(peer)
        if self._claims is not None:
            self._claims.gone(peer)
        if gone.owner is not None and self._peer_of.get(gone.owner) == peer:
            del self._peer_of[gone.owner]
            self._doubtful.add(gone.owner)
        return []

    def dead(self, owner: int) -> list[Effect]:
        """A doubtful owner lives no more."""
        self._doubtful.discard(owner)
        self._lacking.discard(owner)
        asked, freed = self._extents.died(owner)
        self._awaited[owner] = set(asked)
        for dead in list(self._awaited):
            self._reported_by(owner, dead)
        said: list[Effect] = []
        for member, peer in self._peer_of.items():
            said.append(Send(peer, say(Kind.DIED, owner, member in asked)))
        return [*said, *self._returned(freed), *self._more()]

    def expire(self, now: int) -> list[Effect]:
        return self._returned(self._extents.expire(now))

    def look(self, living: Callable[[], Set[int]]) -> list[Effect]:
        """Whether all who live have claimed; then the book is made of that."""
        if self._claims is None or not self._claims.complete(living()):
            return []
        return self._restore(self._claims)

    def heard(self, peer: int, message: Message, now: int) -> list[Effect]:
        """Raises `ValueError` or `ExtentError` for what a member does not say: hang up."""
        said, numbers = self._peers[peer], message.numbers
        match message.kind:
            case Kind.HELLO:
                self._hellos.append(peer)
                return self._welcome() if self._claims is None else []
            case Kind.READ if said.owner is not None:
                said.reads.append((numbers[0], numbers[2:], numbers[1]))
                return []
            case Kind.CLAIM | Kind.WITHHELD | Kind.READ | Kind.CLAIMED:
                return self._claimed(peer, message)
        owner = said.owner
        if owner is None:
            raise ValueError(f"{message.kind.name} from no member")
        match message.kind:
            case Kind.WANT:
                return self._grant(peer, owner, numbers[0])
            case Kind.GIVE_BACK:
                self._extents.give_back(owner, numbers[0])
                self._of[owner].discard(numbers[0])
                return self._more()
            case Kind.REPORTED:
                reads, said.reads = said.reads, []
                return self._reported(peer, owner, numbers[0], reads)
            case Kind.RENEW:
                return self._renewed(numbers[0], numbers[1], now)
            case Kind.END:
                return self._ended(numbers[0])
            case _:
                raise ValueError(f"{message.kind.name} from a member")

    def _welcome(self) -> list[Effect]:
        """Takes in those who wait for it."""
        said: list[Effect] = []
        for peer in self._hellos:
            owner = self._newest = new_owner(self._newest)
            self._extents.join(owner)
            self._of[owner] = set()
            self._peers[peer].owner, self._peer_of[owner] = owner, peer
            shape = (self.shape.pages, self.shape.reserved, self.shape.extent_pages)
            said += [Admit(peer), Send(peer, say(Kind.WELCOME, owner, *shape))]
        self._hellos.clear()
        return said

    def _grant(self, peer: int, owner: int, count: int) -> list[Effect]:
        said: list[Effect] = []
        for given in range(count):
            try:
                grant = self._extents.grant(owner)
            except OutOfExtents:
                self._lacking.add(owner)
                said.append(Send(peer, say(Kind.ANSWERED, count - given)))
                return [*said, *self._wanted(owner)]
            self._of[owner].add(grant.extent)
            said.append(Send(peer, say(Kind.GRANTED, grant.extent, *grant.withheld)))
        self._lacking.discard(owner)
        return [*said, Send(peer, say(Kind.ANSWERED, 0))]

    def _wanted(self, owner: int) -> list[Effect]:
        """Asks those for extents who have more than their part."""
        part = self.shape.extents // max(1, len(self._peer_of))
        others = (each for each in self._peer_of.items() if each[0] != owner)
        return [Send(peer, say(Kind.WANTED, part)) for other, peer in others if len(self._of[other]) > part]

    def _more(self) -> list[Effect]:
        if not self._lacking or not self._extents.counters()["free"]:
            return []
        lacking, self._lacking = self._lacking, set()
        return [Send(self._peer_of[owner], say(Kind.MORE)) for owner in lacking if owner in self._peer_of]

    def _reported(
        self, peer: int, owner: int, dead: int, reads: list[tuple[int, tuple[int, ...], int]]
    ) -> list[Effect]:
        extents = self._of.get(dead, set())
        # A lease that its owner ended without the reader's knowledge names pages that are others' by now.
        still = [[page for page in pages if self.shape.extent_of(page) in extents] for _, pages, _ in reads]
        held = [(pages, until) for pages, (_, _, until) in zip(still, reads, strict=True) if pages]
        leases = iter(self._extents.report(owner, dead, held))
        numbers = [next(leases) if pages else 0 for pages in still]
        self._reported_by(owner, dead)
        return [*(Send(peer, message) for message in in_parts(Kind.LEASES, numbers)), *self._more()]

    def _reported_by(self, reader: int, dead: int) -> None:
        self._awaited[dead].discard(reader)
        if not self._awaited[dead]:
            del self._awaited[dead]
            self._of.pop(dead, None)

    def _renewed(self, lease: int, until: int, now: int) -> list[Effect]:
        with suppress(UnknownLease):  # too late: the reader's check of the generations tells it
            self._extents.renew(lease, now, until)
        return []

    def _ended(self, lease: int) -> list[Effect]:
        try:
            return self._returned(self._extents.end(lease))
        except UnknownLease:
            return []

    def _returned(self, freed: Iterable[tuple[int, int]]) -> list[Effect]:
        of: dict[int, list[int]] = {}
        for owner, page in freed:
            of.setdefault(owner, []).append(page)
        said: list[Effect] = []
        for owner, pages in of.items():
            if owner in self._peer_of:
                said += [Send(self._peer_of[owner], message) for message in in_parts(Kind.RETURNED, pages)]
        return said

    def _claimed(self, peer: int, message: Message) -> list[Effect]:
        if self._claims is not None:
            wrong = self._claims.heard(peer, message)
            return [Send(peer, say(Kind.REFUSED))] if wrong else []
        if message.kind is not Kind.CLAIM:
            return []  # behind a CLAIM that was answered
        if message.numbers[1:3] == self._arena:
            return [GiveUp(f"owner {message.numbers[0]} had lost its connection")]
        return [Send(peer, say(Kind.REFUSED))]

    def _restore(self, claims: Claims) -> list[Effect]:
        peers = claims.peers()
        made = [claims.of(peer) for peer in peers]
        shape = self.shape
        try:
            self._extents, leases, freed = Extents.restore(
                shape.pages, shape.extent_pages, [claim.told() for claim in made], shape.reserved
            )
        except ExtentError as error:  # two say that they have the same: nobody can tell what is free
            return [*(Send(peer, say(Kind.REFUSED)) for peer in peers), GiveUp(str(error))]
        self._claims = None
        self._of = {claim.owner: set(claim.extents) for claim in made}
        self._newest = new_owner(max((claim.owner for claim in made), default=0))
        said: list[Effect] = []
        living = tuple(self._of)[: MOST_NUMBERS - 1]
        for peer, claim, named in zip(peers, made, leases, strict=True):
            self._peers[peer].owner, self._peer_of[claim.owner] = claim.owner, peer
            said += [Send(peer, message) for message in in_parts(Kind.LEASES, [lease or 0 for lease in named])]
            said.append(Send(peer, say(Kind.RESTORED, self._newest, *living)))
        return [*said, *self._returned(freed), *self._welcome()]
