"""Where a node stands: in the flow itself, in an `each`, in a `loop`, in a branch of a `route`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from omniflow.errors import Source

RegionKind = Literal["flow", "each", "loop", "branch"]


@dataclass(frozen=True, slots=True)
class Origin:
    """One end that frames come from: an input of the flow (`node` is None) or an output of a node, by index."""

    node: int | None
    port: int


Only = Mapping[Origin, frozenset[str]]
"""Under which branches something comes at all: of each choice named, one of these."""


@dataclass(eq=False, slots=True)
class Region:
    """`node`: index of the `each`, `loop` or `route` that made it; `branch`: which output of the route leads here;
    `only`: what was chosen when it runs.

    All but branches are scopes: what runs in them runs once per key.
    """

    kind: RegionKind
    label: str
    source: Source
    parent: Region | None = None
    node: int = -1
    branch: int = 0
    only: Only = field(default_factory=dict)

    def chain(self) -> Iterator[Region]:
        """This one, then what is around it, to the flow."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.parent

    def within(self, other: Region) -> bool:
        """Whether it is `other` or inside of it."""
        return any(region is other for region in self.chain())

    @property
    def scope(self) -> Region:
        """The nearest one, from here outwards, that gives keys."""
        return next(region for region in self.chain() if region.kind != "branch")

    @property
    def gated_by(self) -> Region | None:
        """The branch around it, unless a scope stands between: keys come there only when the branch is taken."""
        return self if self.kind == "branch" else None

    def scopes_below(self, other: Region) -> list[Region]:
        """The scopes on the way from `other`, an ancestor, in to this one; outermost first."""
        inside: list[Region] = []
        for region in self.chain():
            if region is other:
                break
            if region.kind != "branch":
                inside.append(region)
        return inside[::-1]


def both(first: Only, second: Only) -> dict[Origin, frozenset[str]]:
    """What must have been chosen for both to come; an empty set where that can never be."""
    joined = dict(first)
    for choice, names in second.items():
        joined[choice] = joined[choice] & names if choice in joined else names
    return joined


def either(several: list[Only]) -> dict[Origin, frozenset[str]]:
    """What must have been chosen for one of them to come."""
    shared = set(several[0]).intersection(*several[1:])
    return {choice: frozenset().union(*(each[choice] for each in several)) for choice in shared}
