"""A flow as Mermaid text, which GitHub and many editors show as a picture."""

from __future__ import annotations

from omniflow.flow.draw.scene import Box, scene_of
from omniflow.v1 import flow_pb2

_SHAPES = {"input": ("([", "])"), "node": ("[", "]"), "result": ("([", "])")}


def mermaid(flow: flow_pb2.Flow) -> str:
    """A flowchart from left to right; thick arrows are streams, dotted ones may be closed."""
    scene = scene_of(flow)
    lines = ["flowchart LR"]
    lines += [f"    {_name(box, index)}{_shape(box)}" for index, box in enumerate(scene.boxes)]
    for wire in scene.wires:
        arrow = "==>" if wire.type.stream else "-.->" if wire.type.optional else "-->"
        source, target = scene.boxes[wire.source], scene.boxes[wire.target]
        label = str(wire.type.required())
        if target.kind == "node":
            label = f"{target.inputs[wire.target_row].name}: {label}"
        lines.append(f"    {_name(source, wire.source)} {arrow}|{_quoted(label)}| {_name(target, wire.target)}")
    lines += [
        "    classDef input fill:#eef4ff,stroke:#5b7fd6,color:#1c2a4a",
        "    classDef node fill:#ffffff,stroke:#8a93a6,color:#1f2430",
        "    classDef result fill:#eefaf1,stroke:#3f9b62,color:#173d27",
    ]
    for kind in ("input", "node", "result"):
        names = [_name(box, index) for index, box in enumerate(scene.boxes) if box.kind == kind]
        if names:
            lines.append(f"    class {','.join(names)} {kind}")
    return "\n".join(lines) + "\n"


def _name(box: Box, index: int) -> str:
    return f"{box.kind}{index}"


def _shape(box: Box) -> str:
    opening, closing = _SHAPES[box.kind]
    return f"{opening}{_quoted('<br/>'.join([box.title, *box.constants]))}{closing}"


def _quoted(text: str) -> str:
    """Mermaid's own escapes: quotes and angle brackets would end or change a label."""
    kept = text.replace("<br/>", "\0").replace("#", "#35;")
    for character, code in (('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("|", "#124;")):
        kept = kept.replace(character, code)
    return '"' + kept.replace("\0", "<br/>") + '"'
