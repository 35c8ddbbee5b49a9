"""A flow as boxes with ports and wires between them; nothing has a place yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omniflow.types import ValueType, from_message
from omniflow.v1 import flow_pb2, value_pb2

BoxKind = Literal["input", "node", "result"]
_LONGEST_CONSTANT = 24


@dataclass(frozen=True, slots=True)
class PortRow:
    """A port as it is drawn: its name, with a note on where it stands in a trigger, and its type."""

    name: str
    type: ValueType


@dataclass(eq=False, slots=True)
class Box:
    """An input, a node or a result. `constants`: lines like "max_tokens = 64"."""

    kind: BoxKind
    title: str
    inputs: list[PortRow] = field(default_factory=list)
    outputs: list[PortRow] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wire:
    """From an output row of a box to an input row of another, all by index."""

    source: int
    source_row: int
    target: int
    target_row: int
    type: ValueType


@dataclass(frozen=True, slots=True)
class Scene:
    """`boxes`: inputs, then nodes, then results, each in the flow's order."""

    name: str
    boxes: list[Box]
    wires: list[Wire]


def scene_of(flow: flow_pb2.Flow) -> Scene:
    boxes = [Box("input", port.name, outputs=[_row(port)]) for port in flow.inputs]
    boxes += [_node(node) for node in flow.nodes]
    boxes += [Box("result", port.name, inputs=[_row(port)]) for port in flow.results]
    nodes, results = len(flow.inputs), len(flow.inputs) + len(flow.nodes)

    def end(place: flow_pb2.End) -> tuple[int, int]:
        if place.place == flow_pb2.End.NODE:
            return nodes + place.node, place.port
        return (place.port, 0) if place.place == flow_pb2.End.INPUT else (results + place.port, 0)

    wires = [Wire(*end(getattr(edge, "from")), *end(edge.to), ValueType.from_proto(edge.type)) for edge in flow.edges]
    return Scene(flow.name, boxes, wires)


def _node(node: flow_pb2.Node) -> Box:
    return Box(
        "node",
        node.name,
        inputs=[_row(port) for port in node.inputs],
        outputs=[_row(port) for port in node.outputs],
        constants=[f"{name} = {_constant(value)}" for name, value in sorted(node.parameters.items())],
    )


def _row(port: flow_pb2.Port) -> PortRow:
    name = port.name
    if port.parameter and port.parameter != name:
        # One of several ports for one parameter: whichever comes first.
        name = port.parameter if name.endswith("#1") else f"or {port.parameter}"
    return PortRow(name, ValueType.from_proto(port.type))


def _constant(value: value_pb2.Value) -> str:
    shown = repr(from_message(value))
    return shown if len(shown) <= _LONGEST_CONSTANT else f"{shown[: _LONGEST_CONSTANT - 1]}…"
