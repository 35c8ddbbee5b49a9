"""What one recording of a flow has seen so far: inputs, nodes, and the mistakes found on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from omniflow.errors import Problem, Source
from omniflow.flow.control import Control
from omniflow.flow.region import Only, Origin, Region, both
from omniflow.flow.settings import NodeSettings
from omniflow.flow.symbol import MistakenSymbol, ParameterSymbol, Symbol, SymbolView, view
from omniflow.roles import MethodSpec, ParameterSpec
from omniflow.types import ValueType

_ACTIVE: ContextVar[Trace | None] = ContextVar("omniflow_trace", default=None)


@dataclass(eq=False, kw_only=True)
class TracedNode:
    """`gate`: what a route sends to the branch that the node stands in, when it needs that to wait for; `only`: what
    must have been chosen for it to run."""

    name: str
    source: Source
    region: Region
    gate: Symbol | None = None
    outputs: list[Symbol] = field(default_factory=list)
    only: Only = field(default_factory=dict)

    def fed_by(self) -> list[Symbol]:
        """Every symbol that feeds it, the gate last."""
        raise NotImplementedError


@dataclass(eq=False, kw_only=True)
class RoleNode(TracedNode):
    """One call of a role's method: what feeds each input, and the constants given."""

    role: str
    spec: MethodSpec
    feeds: dict[str, Symbol]
    constants: dict[str, Any]
    settings: NodeSettings = field(default_factory=NodeSettings)

    def fed_by(self) -> list[Symbol]:
        return [*self.feeds.values(), *([self.gate] if self.gate is not None else [])]


@dataclass(eq=False, kw_only=True)
class ControlNode(TracedNode):
    """`inputs`: name and symbol of each port, in the order that its kind wants; None for one that has none yet."""

    control: Control
    inputs: list[tuple[str, Symbol | None]] = field(default_factory=list)

    def fed_by(self) -> list[Symbol]:
        fed = [symbol for _, symbol in self.inputs if symbol is not None]
        return [*fed, *([self.gate] if self.gate is not None else [])]


class Trace:
    """One recording. Mistakes are collected, so that one run shows them all."""

    def __init__(self, flow: str, source: Source) -> None:
        self.flow = flow
        self.root = Region("flow", f"flow `{flow}`", source)
        self.region = self.root
        self.inputs: list[Symbol] = []
        self.parameters: dict[str, tuple[ParameterSpec, ParameterSymbol]] = {}
        self.nodes: list[TracedNode] = []
        self.problems: list[Problem] = []
        self.gathered: dict[int, tuple[object, Any]] = {}
        self._names: Counter[str] = Counter()
        self._prefix = ""

    def problem(self, code: str, message: str, cure: str, source: Source | None, node: str = "") -> None:
        self.problems.append(Problem(code, message, cure, source, node))

    def mistaken(self, label: str, source: Source) -> Symbol:
        return MistakenSymbol(SymbolView(self, None, None, label, source, False, self.region))

    def default_of(self, parameter: ParameterSymbol) -> Any:
        return next(spec.default for spec, symbol in self.parameters.values() if symbol is parameter)

    def name(self, base: str) -> str:
        """ "llm.chat", or "llm.chat#2" for the second use; behind the names of the flows that it is nested in."""
        full = f"{self._prefix}{base}"
        self._names[full] += 1
        uses = self._names[full]
        return full if uses == 1 else f"{full}#{uses}"

    def add(self, node: TracedNode) -> int:
        """Its index. Its place must be `region`, and its outputs are made afterwards by `output`."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def add_control(
        self,
        control: Control,
        inputs: Sequence[tuple[str, Symbol | None]],
        source: Source,
        region: Region,
        *,
        only: Only | None = None,
    ) -> int:
        """A control node's index. `only`: of one that does not need all its inputs."""
        node = ControlNode(
            name=self.name(control.title), source=source, region=region, control=control, inputs=list(inputs)
        )
        index = self.add(node)
        self.place(index, [(symbol, True) for symbol in node.fed_by()], only)
        return index

    def feed_back(self, loop: int, inputs: Sequence[tuple[str, Symbol | None]]) -> None:
        """Adds to a loop's inputs what its body has made."""
        node = self.nodes[loop]
        if isinstance(node, ControlNode):
            node.inputs += inputs

    def output(
        self,
        node: int,
        type: ValueType | None,
        label: str,
        *,
        maybe: bool = False,
        region: Region | None = None,
        only: Only | None = None,
    ) -> Symbol:
        """The node's next output port."""
        traced = self.nodes[node]
        symbol = Symbol(
            SymbolView(
                self,
                Origin(node, len(traced.outputs)),
                type,
                label,
                traced.source,
                maybe,
                region or traced.region,
                traced.only if only is None else only,
            )
        )
        traced.outputs.append(symbol)
        return symbol

    def place(self, index: int, feeds: Sequence[tuple[Symbol, bool]], only: Only | None = None) -> None:
        """Gives the node its gate where it needs one: `feeds` says of each input whether it is required.

        One that reads from inside of its branch only is closed with the branch; any other has to wait for the choice.
        Reports a node that never can run because what it requires excludes each other.
        """
        node = self.nodes[index]
        branch = node.region.gated_by
        if branch is not None:
            inside = [required for symbol, required in feeds if _within(symbol, branch)]
            if len(inside) < len(feeds) or not any(inside):
                node.gate = self.nodes[branch.node].outputs[branch.branch]
        self._check_keys(node, feeds)
        node.only = node.region.only if only is None else both(node.region.only, only)
        for symbol, required in feeds:
            if required and only is None:
                node.only = both(node.only, view(symbol).only)
        never = next((choice for choice, names in node.only.items() if not names), None)
        if never is not None:
            self.problem(
                "exclusive-join",
                f"`{node.name}` waits for values of branches that exclude each other, so it can never run",
                "let the branches return what they make and pass on what route(...) returns, or make the inputs "
                "`T | None` in the role",
                node.source,
                node.name,
            )
            node.only = {}

    def _check_keys(self, node: TracedNode, feeds: Sequence[tuple[Symbol, bool]]) -> None:
        """What runs once per key has to read something of that key."""
        scope = node.region.scope
        fed = [symbol for symbol, _ in feeds] + ([node.gate] if node.gate is not None else [])
        if scope.kind == "flow" or any(_scope_of(symbol) in (scope, None) for symbol in fed):
            return
        what, often = ("state", "round") if scope.kind == "loop" else ("item", "item")
        self.problem(
            "same-every-time",
            f"`{node.name}` reads nothing of the {what} of {scope.label} (line {scope.source.line}), so it would make "
            f"the same in every {often}",
            f"call it once, before the {scope.kind}, and use its result inside",
            node.source,
            node.name,
        )

    @contextmanager
    def recording(self) -> Iterator[None]:
        token = _ACTIVE.set(self)
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    @contextmanager
    def entered(self, region: Region) -> Iterator[None]:
        before, self.region = self.region, region
        try:
            yield
            self.must_be_in(region)
        finally:
            self.region = before

    def must_be_in(self, region: Region) -> None:
        """Reports an each that was left before its end."""
        if self.region is not region:
            self.problem(
                "each-left-early",
                f"{self.region.label} is left early (by `return`, `break` or next()); what stands in it is recorded "
                "once, for every item",
                "let the `for` run to its end and return after it: there is no first item while a flow is recorded",
                self.region.source,
            )
            self.region = region

    @contextmanager
    def nested(self, flow: str) -> Iterator[None]:
        """While a flow called in this one is recorded."""
        before = self._prefix
        self._prefix = f"{self.name(flow)}."
        try:
            yield
        finally:
            self._prefix = before


def active() -> Trace | None:
    """The recording in progress, if any."""
    return _ACTIVE.get()


def _scope_of(symbol: Symbol) -> Region | None:
    home = view(symbol).region
    return home.scope if home is not None and view(symbol).origin is not None else None


def _within(symbol: Symbol, region: Region) -> bool:
    home = view(symbol).region
    return home is not None and home.within(region)
