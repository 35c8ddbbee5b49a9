"""A flow as boxes with ports and wires between them; nothing has a place yet.

An `each` or a `loop` is one box, a group, with a scene of its own inside: what enters and leaves it are boxes there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from omniflow.types import ValueType, from_message
from omniflow.v1 import flow_pb2, value_pb2

BoxKind = Literal["input", "node", "result", "group", "entry", "exit"]
_LONGEST_CONSTANT = 24


@dataclass(frozen=True, slots=True)
class PortRow:
    """A port as it is drawn: its name, with a note on where it stands in a trigger, and its type."""

    name: str
    type: ValueType


@dataclass(eq=False, slots=True)
class Box:
    """`control`: the kind of a control node, "" of a role's; `constants`: lines like "max_tokens = 64"; `scene`: what
    a group holds; `doors`: of a group, the box inside that each of its outputs comes out of.

    The inputs of a group are, in order, the entries of its scene.
    """

    kind: BoxKind
    title: str
    inputs: list[PortRow] = field(default_factory=list)
    outputs: list[PortRow] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    control: str = ""
    scene: Scene | None = None
    doors: list[Box] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wire:
    """From an output row of a box to an input row of another, all by index."""

    source: int
    source_row: int
    target: int
    target_row: int
    type: ValueType


@dataclass(eq=False, slots=True)
class Scene:
    """`boxes`: what feeds others stands before them; `turns`: from an exit back to the entry of the next round."""

    name: str
    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    turns: list[tuple[Box, Box]] = field(default_factory=list)

    def entries(self) -> list[Box]:
        return [box for box in self.boxes if box.kind == "entry"]


def node_box(node: flow_pb2.Node) -> Box:
    """A node that is no each, loop or end of one."""
    return Box(
        "node",
        node.name,
        inputs=[row(port) for port in node.inputs],
        outputs=[row(port) for port in node.outputs],
        constants=[f"{name} = {_constant(value)}" for name, value in sorted(node.parameters.items())],
        control=node.WhichOneof("control") or "",
    )


def row(port: flow_pb2.Port) -> PortRow:
    name = port.name
    if port.gate:
        name = "when taken"
    elif port.parameter and port.parameter != name:
        # One of several ports for one parameter: whichever comes first.
        name = port.parameter if name.endswith("#1") else f"or {port.parameter}"
    return PortRow(name, ValueType.from_proto(port.type))


def _constant(value: value_pb2.Value) -> str:
    shown = repr(from_message(value))
    return shown if len(shown) <= _LONGEST_CONSTANT else f"{shown[: _LONGEST_CONSTANT - 1]}…"
