"""What a node does when it is no role's method: the kinds of control nodes, as the graph's format has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from omniflow.v1 import flow_pb2

NumberOf = Callable[[int], int]
"""From the index of the `each` or `loop` node that makes a scope to the scope's number in the graph."""


class Control(Protocol):
    """`title` is what messages and nodes' names call it."""

    @property
    def title(self) -> str: ...
    def output_names(self, count: int) -> list[str]:
        """What its output ports are called."""

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        """Sets the node's kind."""


@dataclass(frozen=True, slots=True)
class Each:
    """Fan-out. Outputs: one item per stream, then the count."""

    node: int
    title: str = "each"

    def output_names(self, count: int) -> list[str]:
        items = ["item"] if count == 2 else [f"item{index}" for index in range(count - 1)]
        return [*items, "count"]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.each.scope = number_of(self.node)


@dataclass(frozen=True, slots=True)
class Collect:
    """Joins a stream (`each` is None), or what an each makes, into a list."""

    each: int | None
    title: str = "collect"

    def output_names(self, count: int) -> list[str]:
        return ["result"]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.collect.SetInParent()
        if self.each is not None:
            node.collect.scope = number_of(self.each)


@dataclass(frozen=True, slots=True)
class Ordered:
    """What an each makes, as a stream in its order."""

    each: int
    title: str = "ordered"

    def output_names(self, count: int) -> list[str]:
        return ["result"]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.ordered.scope = number_of(self.each)


@dataclass(frozen=True, slots=True)
class Unordered:
    """What an each makes, as a stream in order of arrival."""

    each: int
    title: str = "unordered"

    def output_names(self, count: int) -> list[str]:
        return ["result"]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.unordered.scope = number_of(self.each)


@dataclass(frozen=True, slots=True)
class Zip:
    title: str = "zip_streams"

    def output_names(self, count: int) -> list[str]:
        return [f"stream{index}" for index in range(count)]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.zip.SetInParent()


@dataclass(frozen=True, slots=True)
class Merge:
    title: str = "merge"

    def output_names(self, count: int) -> list[str]:
        return ["result"]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.merge.SetInParent()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`chosen`: it gives what a route made, rather than whichever comes first."""

    chosen: bool = False
    title: str = "any_of"

    def output_names(self, count: int) -> list[str]:
        return ["result"]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.any_of.SetInParent()


@dataclass(frozen=True, slots=True)
class Route:
    branches: tuple[str, ...]
    exclusive: bool
    title: str = "route"

    def output_names(self, count: int) -> list[str]:
        return list(self.branches)

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.route.branches.extend(self.branches)
        node.route.exclusive = self.exclusive


@dataclass(slots=True)
class Loop:
    """A bounded cycle. While it is recorded it has every field of its state; those never read are left out at the end.

    Inputs in this order: a start for each of `fields`, a next for each, until, then the emits; outputs: a state for
    each, a final for each, then the emitted streams. `kept`: indices into `fields`.
    """

    node: int
    fields: tuple[str, ...]
    max_rounds: int
    emits: tuple[str, ...] = ()
    kept: list[int] = field(default_factory=list)
    title: str = "loop"

    def output_names(self, count: int) -> list[str]:
        states = [f"state.{name}" for name in self.fields]
        finals = [f"final.{name}" for name in self.fields]
        return [*states, *finals, *(f"emit.{name}" for name in self.emits)]

    def write(self, node: flow_pb2.Node, number_of: NumberOf) -> None:
        node.loop.scope = number_of(self.node)
        node.loop.carried = len(self.kept)
        node.loop.emitted = len(self.emits)
        node.loop.max_rounds = self.max_rounds

    def inputs_kept(self) -> list[int]:
        count = len(self.fields)
        return [*self.kept, *(count + index for index in self.kept), *range(2 * count, 2 * count + 1 + len(self.emits))]

    def outputs_kept(self) -> list[int]:
        count = len(self.fields)
        return [*self.kept, *(count + index for index in self.kept), *range(2 * count, 2 * count + len(self.emits))]
