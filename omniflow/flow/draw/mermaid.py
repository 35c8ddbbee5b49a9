"""A flow as Mermaid text, which GitHub and many editors show as a picture."""

from __future__ import annotations

from omniflow.flow.draw.scene import Box, node_box, row
from omniflow.types import ValueType
from omniflow.v1 import flow_pb2

_PILL, _CARD, _DIAMOND, _CIRCLE = ("([", "])"), ("[", "]"), ("{{", "}}"), ("((", "))")
_SHAPES = {
    "each": _DIAMOND,
    "loop": _DIAMOND,
    "route": _DIAMOND,
    "collect": _DIAMOND,
    "ordered": _DIAMOND,
    "unordered": _DIAMOND,
    "any_of": _CIRCLE,
    "merge": _CIRCLE,
    "zip": _CIRCLE,
}


def mermaid(flow: flow_pb2.Flow) -> str:
    """A flowchart from left to right; thick arrows are streams, dotted ones may be closed; frames hold scopes."""
    boxes = [node_box(node) for node in flow.nodes]
    lines = ["flowchart LR"]
    lines += [f"    input{index}{_shape(_PILL, port.name)}" for index, port in enumerate(flow.inputs)]
    lines += _scope(flow, boxes, 0, "    ")
    lines += [f"    result{index}{_shape(_PILL, port.name)}" for index, port in enumerate(flow.results)]
    lines += [_edge(flow, boxes, edge) for edge in flow.edges if not _counts(flow, edge)]
    lines += [
        "    classDef input fill:#eef4ff,stroke:#5b7fd6,color:#1c2a4a",
        "    classDef node fill:#ffffff,stroke:#8a93a6,color:#1f2430",
        "    classDef control fill:#f3edfb,stroke:#8250c4,color:#2a1a45",
        "    classDef result fill:#eefaf1,stroke:#3f9b62,color:#173d27",
    ]
    kinds = {
        "input": [f"input{index}" for index in range(len(flow.inputs))],
        "node": [f"node{index}" for index, box in enumerate(boxes) if not box.control],
        "control": [f"node{index}" for index, box in enumerate(boxes) if box.control],
        "result": [f"result{index}" for index in range(len(flow.results))],
    }
    lines += [f"    class {','.join(names)} {kind}" for kind, names in kinds.items() if names]
    return "\n".join(lines) + "\n"


def _scope(flow: flow_pb2.Flow, boxes: list[Box], scope: int, indent: str) -> list[str]:
    """The nodes of a scope, and a frame for each scope inside."""
    lines = []
    for index, node in enumerate(flow.nodes):
        if node.scope == scope:
            words = [node.name, *boxes[index].constants]
            if node.HasField("loop"):
                words.append(f"at most {node.loop.max_rounds} rounds")
            lines.append(f"{indent}node{index}{_shape(_SHAPES.get(boxes[index].control, _CARD), *words)}")
    for number, inner in enumerate(flow.scopes, start=1):
        if inner.parent == scope:
            lines.append(f"{indent}subgraph scope{number}[{_quoted(inner.name)}]")
            lines += [*_scope(flow, boxes, number, indent + "    "), f"{indent}end"]
    return lines


def _counts(flow: flow_pb2.Flow, edge: flow_pb2.Edge) -> bool:
    """Whether an edge only tells how many items an each had."""
    start = getattr(edge, "from")
    if start.place != flow_pb2.End.NODE:
        return False
    node = flow.nodes[start.node]
    return bool(node.HasField("each") and start.port + 1 == len(node.outputs))


def _edge(flow: flow_pb2.Flow, boxes: list[Box], edge: flow_pb2.Edge) -> str:
    type, start, end = ValueType.from_proto(edge.type), getattr(edge, "from"), edge.to
    arrow = "==>" if type.stream else "-.->" if type.optional else "-->"
    label = str(type.required())
    if end.place == flow_pb2.End.NODE:
        port = flow.nodes[end.node].inputs[end.port]
        label = f"{row(port).name}: {label}"
        if port.gate:
            label = f"if {flow.nodes[start.node].outputs[start.port].name}"
    source = f"node{start.node}" if start.place == flow_pb2.End.NODE else f"input{start.port}"
    target = f"node{end.node}" if end.place == flow_pb2.End.NODE else f"result{end.port}"
    return f"    {source} {arrow}|{_quoted(label)}| {target}"


def _shape(shape: tuple[str, str], *words: str) -> str:
    return f"{shape[0]}{_quoted('<br/>'.join(words))}{shape[1]}"


def _quoted(text: str) -> str:
    """Mermaid's own escapes: quotes and angle brackets would end or change a label."""
    kept = text.replace("<br/>", "\0").replace("#", "#35;")
    for character, code in (('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("|", "#124;")):
        kept = kept.replace(character, code)
    return '"' + kept.replace("\0", "<br/>") + '"'
