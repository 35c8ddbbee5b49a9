"""A flow as SVG, readable on light and dark pages."""

from __future__ import annotations

from html import escape

from omniflow.flow.draw.layout import (
    CHARACTER,
    GROUP_PADDING,
    HEADER,
    PADDING,
    ROW,
    TURN,
    Item,
    Layout,
    Link,
    lay_out,
)
from omniflow.flow.draw.nested import scene_of
from omniflow.flow.draw.scene import Box, PortRow, Scene, Wire
from omniflow.types import Kind, ValueType
from omniflow.v1 import flow_pb2

_MARGIN, _TITLE, _LEGEND = 28.0, 44.0, 40.0
_COLOURS = {
    Kind.TEXT: "#3b6fd4",
    Kind.IMAGE: "#2f9e5b",
    Kind.AUDIO: "#d9822b",
    Kind.VIDEO: "#c9405a",
    Kind.TENSOR: "#8250c4",
}
_OTHER = "#6b7385"
# Plain colours, not variables: many viewers outside browsers know none.
_STYLE = """
.page { fill: #ffffff; }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2430; }
.title { font-size: 15px; font-weight: 600; }
.name { font-weight: 600; }
.faint { fill: #6b7385; }
.card { fill: #ffffff; stroke: #c3cad7; }
.head { fill: #f1f4f9; }
.hollow { fill: #ffffff; }
.ground { fill: #f6f8fc; stroke: #9aa5bb; stroke-dasharray: 2 3; }
.ground.loop { fill: #fdf7ee; stroke: #c9a15c; }
.card.route, .card.any_of, .card.merge, .card.zip, .card.collect { stroke: #8250c4; }
.head.route, .head.any_of, .head.merge, .head.zip, .head.collect { fill: #f3edfb; }
.turn { stroke: #6b7385; stroke-dasharray: 5 4; }
.wire { fill: none; stroke-width: 1.8; }
.stream { stroke-width: 3.2; }
.optional { stroke-dasharray: 6 4; }
@media (prefers-color-scheme: dark) {
  .page { fill: #14171e; }
  text { fill: #e6e9f0; }
  .faint { fill: #97a0b3; }
  .card { fill: #1d222c; stroke: #3d4657; }
  .head { fill: #262d3a; }
  .hollow { fill: #1d222c; }
  .ground { fill: #191d25; stroke: #4d586e; }
  .ground.loop { fill: #221d15; stroke: #80683c; }
  .head.route, .head.any_of, .head.merge, .head.zip, .head.collect { fill: #2d2440; }
}
"""


def svg(flow: flow_pb2.Flow) -> str:
    """A whole SVG document. Thick wires are streams, dashed ones may be closed, colours tell what travels."""
    scene = scene_of(flow)
    layout = lay_out(scene)
    legend = _legend(scene)
    width = max(layout.width, 8 * CHARACTER * 10) + 2 * _MARGIN
    height = layout.height + _TITLE + _LEGEND + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="flow {escape(flow.name)}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{_OTHER}"/></marker></defs>',
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}" rx="10"/>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 10}">{escape(flow.name)}</text>',
        f'<g transform="translate({_MARGIN},{_MARGIN + _TITLE})">',
        *_scene(scene, layout),
        "</g>",
        f'<g transform="translate({_MARGIN},{height - _MARGIN})">{legend}</g>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def colour(type: ValueType) -> str:
    kind = type.item.kind if type.kind is Kind.LIST and type.item is not None else type.kind
    return _COLOURS.get(kind, _OTHER)


def _scene(scene: Scene, layout: Layout) -> list[str]:
    """Groups first, so that wires run over their grounds, then wires, then what they join."""
    groups = [_group(item) for item in layout.items if item.inner is not None]
    boxes = [_box(item) for item in layout.items if item.inner is None]
    return [*groups, *_wires(scene, layout), *(_doors(item) for item in layout.items if item.inner is not None), *boxes]


def _group(item: Item) -> str:
    """The ground of an each or a loop, with all that it holds."""
    box, inner = item.box, item.inner
    if box is None or inner is None or box.scene is None:
        return ""
    left = _inset(item)
    held = _scene(box.scene, inner)
    turns = [_turn(inner, *turn, number) for number, turn in enumerate(box.scene.turns, start=1)]
    return (
        f'<g transform="translate({item.x:.1f},{item.y:.1f})">'
        f'<rect class="ground {box.control}" width="{item.width:.1f}" height="{item.height:.1f}" rx="12"/>'
        f'<text class="name" x="14" y="{HEADER / 2 + 5}">{escape(box.title)}</text>'
        f'<g transform="translate({left:.1f},{HEADER + PADDING})">{"".join([*turns, *held])}</g></g>'
    )


def _inset(item: Item) -> float:
    return (item.width - item.inner.width) / 2 if item.inner is not None else GROUP_PADDING


def _turn(inner: Layout, exit_: Box, entry: Box, number: int) -> str:
    """The way of a loop's state from the end of a round to the start of the next."""
    ends = {id(item.box): item for item in inner.items}
    start, end = ends[id(exit_)], ends[id(entry)]
    x, y = start.x + start.width / 2, start.y + start.height
    low, left, top = inner.height + TURN * (number - 0.5), end.x + end.width / 2, end.y + end.height
    return (
        f'<path class="wire turn" marker-end="url(#arrow)" '
        f'd="M{x:.1f} {y:.1f} V{low - 8:.1f} Q{x:.1f} {low:.1f} {x - 8:.1f} {low:.1f} H{left + 8:.1f} '
        f'Q{left:.1f} {low:.1f} {left:.1f} {low - 8:.1f} V{top + 2:.1f}"/>'
    )


def _doors(item: Item) -> str:
    """The ports of a group, and their wires on to what is inside."""
    box = item.box
    if box is None or item.inner is None:
        return ""
    inset, ends = _inset(item), {id(each.box): each for each in item.inner.items}
    parts = [f'<g transform="translate({item.x:.1f},{item.y:.1f})">']
    entries = box.scene.entries() if box.scene is not None else []
    for index, (port, entry) in enumerate(zip(box.inputs, entries, strict=True)):
        y, end = item.left(index), inset + ends[id(entry)].x
        parts.append(f'<path class="wire" stroke="{colour(port.type)}" d="M0 {y:.1f} H{end:.1f}"/>{_dot(0.0, y, port)}')
    for index, (port, door) in enumerate(zip(box.outputs, box.doors, strict=True)):
        y, start = item.right(index), inset + ends[id(door)].x + ends[id(door)].width
        classes = "wire stream" if port.type.stream else "wire"
        parts.append(
            f'<path class="{classes}" stroke="{colour(port.type)}" d="M{start:.1f} {y:.1f} H{item.width:.1f}"/>'
            f"{_dot(item.width, y, port)}"
        )
    return "".join([*parts, "</g>"])


def _wires(scene: Scene, layout: Layout) -> list[str]:
    drawn = []
    for wire, route in zip(scene.wires, layout.routes, strict=True):
        classes = "wire" + (" stream" if wire.type.stream else "") + (" optional" if wire.type.optional else "")
        drawn.append(f'<path class="{classes}" stroke="{colour(wire.type)}" d="{_path(route)}"/>')
    return drawn


def _path(route: list[Link]) -> str:
    first = route[0]
    path = [f"M{first.source.x + first.source.width:.1f} {first.start:.1f}"]
    for link in route:
        left, right = link.source.x + link.source.width, link.target.x
        bend = max((right - left) / 2, 24.0)
        path.append(f"C{left + bend:.1f} {link.start:.1f} {right - bend:.1f} {link.end:.1f} {right:.1f} {link.end:.1f}")
        if link.target.box is None:
            path.append(f"H{right + link.target.width:.1f}")
    return " ".join(path)


def _box(item: Item) -> str:
    box = item.box
    if box is None:
        return ""
    return _node(item, box) if box.kind == "node" else _end(item, box)


def _end(item: Item, box: Box) -> str:
    """An input or a result, of the flow or of a scope: a pill in the colour of what travels."""
    row = (box.outputs or box.inputs)[0]
    middle = item.height / 2 + 4
    dot = item.width if box.kind in ("input", "entry") else 0.0
    return (
        f'<g transform="translate({item.x:.1f},{item.y:.1f})">'
        f'<rect class="card" width="{item.width:.1f}" height="{item.height:.1f}" rx="{item.height / 2:.1f}" '
        f'style="stroke:{colour(row.type)}"/>'
        f'<text x="20" y="{middle:.1f}"><tspan class="name">{escape(row.name)}</tspan>'
        f'<tspan class="faint" dx="7">{escape(str(row.type))}</tspan></text>'
        f"{_dot(dot, item.height / 2, row)}</g>"
    )


def _node(item: Item, box: Box) -> str:
    width, height = item.width, item.height
    parts = [
        f'<g transform="translate({item.x:.1f},{item.y:.1f})">',
        f'<rect class="card {box.control}" width="{width:.1f}" height="{height:.1f}" rx="8"/>',
        f'<path class="head {box.control}" d="M0.5 {HEADER} V8 Q0.5 0.5 8 0.5 H{width - 8:.1f} Q{width - 0.5:.1f} 0.5 '
        f'{width - 0.5:.1f} 8 V{HEADER} Z"/>',
        f'<text class="name" x="{width / 2:.1f}" y="{HEADER / 2 + 4.5}" text-anchor="middle">'
        f"{escape(box.title)}</text>",
    ]
    for index, row in enumerate(box.inputs):
        y = item.left(index)
        parts.append(f'<text x="12" y="{y + 4:.1f}">{_label(row)}</text>{_dot(0.0, y, row)}')
    for index, row in enumerate(box.outputs):
        y, word = item.right(index), str(row.type)
        # The name is placed by itself: how a shift inside right-aligned text counts differs between viewers.
        name_end = width - 12 - CHARACTER * len(word) - 6
        parts.append(
            f'<text x="{name_end:.1f}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>'
            f'<text class="faint" x="{width - 12:.1f}" y="{y + 4:.1f}" text-anchor="end">{escape(word)}</text>'
            f"{_dot(width, y, row)}"
        )
    below = HEADER + PADDING + ROW * max(len(box.inputs), len(box.outputs)) + 8
    for index, line in enumerate(box.constants):
        parts.append(f'<text class="faint" x="12" y="{below + 17 * index:.1f}">{escape(line)}</text>')
    return "".join([*parts, "</g>"])


def _label(row: PortRow) -> str:
    return f'{escape(row.name)}<tspan class="faint" dx="7">{escape(str(row.type))}</tspan>'


def _dot(x: float, y: float, row: PortRow) -> str:
    """A port: hollow when it may stay empty."""
    fill = 'class="hollow"' if row.type.optional else f'fill="{colour(row.type)}"'
    return f'<circle {fill} cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{colour(row.type)}" stroke-width="1.6"/>'


def _all_wires(scene: Scene) -> list[Wire]:
    return [*scene.wires, *(wire for box in scene.boxes if box.scene is not None for wire in _all_wires(box.scene))]


def _legend(scene: Scene) -> str:
    kinds = {wire.type.word: colour(wire.type) for wire in _all_wires(scene)}
    parts, x = [], 0.0
    for word, shade in kinds.items():
        parts.append(f'<circle cx="{x + 4:.1f}" cy="-4" r="4" fill="{shade}"/>')
        parts.append(f'<text class="faint" x="{x + 14:.1f}" y="0">{escape(word)}</text>')
        x += 14 + CHARACTER * len(word) + 18
    for name, classes in (("stream", "wire stream"), ("may be closed", "wire optional")):
        parts.append(f'<path class="{classes}" stroke="{_OTHER}" d="M{x:.1f} -4 h26"/>')
        parts.append(f'<text class="faint" x="{x + 34:.1f}" y="0">{name}</text>')
        x += 34 + CHARACTER * len(name) + 18
    return "".join(parts)
