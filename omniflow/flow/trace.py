"""What one recording of a flow has seen so far: inputs, nodes, and the mistakes found on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from omniflow.errors import Problem, Source
from omniflow.flow.symbol import Symbol
from omniflow.roles import MethodSpec

_ACTIVE: ContextVar[Trace | None] = ContextVar("omniflow_trace", default=None)


@dataclass(eq=False)
class TracedNode:
    """One call of a role's method: what feeds each input, and the constants given."""

    name: str
    role: str
    spec: MethodSpec
    feeds: dict[str, Symbol]
    constants: dict[str, Any]
    source: Source
    outputs: list[Symbol] = field(default_factory=list)


class Trace:
    """One recording. Mistakes are collected, so that one run shows them all."""

    def __init__(self, flow: str) -> None:
        self.flow = flow
        self.inputs: list[Symbol] = []
        self.nodes: list[TracedNode] = []
        self.problems: list[Problem] = []

    def problem(self, code: str, message: str, cure: str, source: Source | None, node: str = "") -> None:
        self.problems.append(Problem(code, message, cure, source, node))

    def node_name(self, role: str, method: str) -> str:
        """ "llm.chat", or "llm.chat#2" for the second use."""
        uses = 1 + sum(node.role == role and node.spec.name == method for node in self.nodes)
        return f"{role}.{method}" if uses == 1 else f"{role}.{method}#{uses}"

    @contextmanager
    def recording(self) -> Iterator[None]:
        token = _ACTIVE.set(self)
        try:
            yield
        finally:
            _ACTIVE.reset(token)


def active() -> Trace | None:
    """The recording in progress, if any."""
    return _ACTIVE.get()
