"""Layered layout: columns by longest path, order within a column by few crossings, heights by short wires."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from omniflow.flow.draw.scene import Box, PortRow, Scene

CHARACTER = 7.3
"""Width of one character of the 12 px monospace font, in px."""
ROW, HEADER, PADDING = 20.0, 28.0, 8.0
GROUP_PADDING, TURN = 22.0, 14.0
"""Left and right of what a group holds; below it for each arrow that leads back."""
_COLUMN_GAP, _BOX_GAP, _LANE = 76.0, 26.0, 12.0
_SWEEPS, _RELAXATIONS = 8, 12


@dataclass(eq=False, slots=True)
class Item:
    """What takes a place in a column: a box, or the passage of a wire through it (`box` is None).

    `inner`: of a group, how what it holds is laid out.
    """

    box: Box | None
    column: int
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    inner: Layout | None = None

    def left(self, row: int) -> float:
        """Height of an input below the item's top."""
        if self.inner is not None and self.box is not None and self.box.scene is not None:
            return self._door(self.inner, self.box.scene.entries()[row])
        return self._port(row)

    def right(self, row: int) -> float:
        """Height of an output below the item's top."""
        if self.inner is not None and self.box is not None:
            return self._door(self.inner, self.box.doors[row])
        return self._port(row)

    def _port(self, row: int) -> float:
        if self.box is None or self.box.kind != "node":
            return self.height / 2
        return HEADER + PADDING / 2 + ROW * (row + 0.5)

    @staticmethod
    def _door(inner: Layout, door: Box) -> float:
        item = next(item for item in inner.items if item.box is door)
        return HEADER + PADDING + item.y + item.height / 2


@dataclass(frozen=True, slots=True)
class Link:
    """A wire's step from one column to the next."""

    source: Item
    source_row: int
    target: Item
    target_row: int

    @property
    def start(self) -> float:
        return self.source.y + self.source.right(self.source_row)

    @property
    def end(self) -> float:
        return self.target.y + self.target.left(self.target_row)


@dataclass(eq=False, slots=True)
class Layout:
    """`items`: one per box of the scene; `routes`: one list of links per wire; sizes in px."""

    items: list[Item]
    routes: list[list[Link]]
    width: float = 0.0
    height: float = 0.0
    columns: list[list[Item]] = field(default_factory=list)


def lay_out(scene: Scene) -> Layout:
    columns_of = _columns(scene)
    items = [_item(box, columns_of[index]) for index, box in enumerate(scene.boxes)]
    columns: list[list[Item]] = [[] for _ in range(max(columns_of, default=0) + 1)]
    for item in items:
        columns[item.column].append(item)
    routes = [_route(scene, index, items, columns) for index in range(len(scene.wires))]
    layout = Layout(items, routes, columns=columns)
    links = [link for route in routes for link in route]
    _order(columns, links)
    _place_columns(layout)
    _place_rows(layout, links)
    return layout


def _columns(scene: Scene) -> list[int]:
    """Inputs in the first column, results in the last; a node right of all that feeds it (loops turn back)."""
    column = [0] * len(scene.boxes)
    feeds: dict[int, list[int]] = defaultdict(list)
    for wire in scene.wires:
        if wire.source < wire.target:
            feeds[wire.target].append(wire.source)
    for index, box in enumerate(scene.boxes):
        if box.kind in ("node", "group"):
            column[index] = 1 + max((column[source] for source in feeds[index]), default=0)
    last = 1 + max(column, default=0)
    return [last if box.kind in ("result", "exit") else column[index] for index, box in enumerate(scene.boxes)]


def _item(box: Box, column: int) -> Item:
    if box.scene is None:
        return Item(box, column, *_size(box))
    inner = lay_out(box.scene)
    turns = TURN * len(box.scene.turns)
    width = max(inner.width + 2 * GROUP_PADDING, CHARACTER * len(box.title) + 40)
    return Item(box, column, width, HEADER + 2 * PADDING + inner.height + turns, inner=inner)


def _size(box: Box) -> tuple[float, float]:
    if box.kind != "node":
        row = (box.outputs or box.inputs)[0]
        return CHARACTER * (len(row.name) + len(str(row.type)) + 1) + 40, 34.0
    rows = max(len(box.inputs), len(box.outputs))
    widest = max(
        [len(box.title) + 2, *(len(line) for line in box.constants)]
        + [_row_length(box.inputs, index) + _row_length(box.outputs, index) + 3 for index in range(rows)]
    )
    return CHARACTER * widest + 28, HEADER + PADDING + ROW * rows + 17.0 * len(box.constants)


def _row_length(rows: list[PortRow], index: int) -> int:
    return len(rows[index].name) + len(str(rows[index].type)) + 1 if index < len(rows) else 0


def _route(scene: Scene, index: int, items: list[Item], columns: list[list[Item]]) -> list[Link]:
    """The links of one wire, with an item for its passage through every column between its ends."""
    wire = scene.wires[index]
    source, target = items[wire.source], items[wire.target]
    links: list[Link] = []
    at, row = source, wire.source_row
    for column in range(source.column + 1, target.column):
        passage = Item(None, column, 0.0, _LANE)
        columns[column].append(passage)
        links.append(Link(at, row, passage, 0))
        at, row = passage, 0
    links.append(Link(at, row, target, wire.target_row))
    return links


def _order(columns: list[list[Item]], links: list[Link]) -> None:
    """Sweeps to and fro, sorting each column by where its neighbours are; keeps the order with fewest crossings."""
    best, fewest = [list(column) for column in columns], _crossings(columns, links)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            places = _places(columns)
            column.sort(key=lambda item: _barycentre(item, links, places, forward))
        crossings = _crossings(columns, links)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    for column, kept in zip(columns, best, strict=True):
        column[:] = kept


def _places(columns: list[list[Item]]) -> dict[int, int]:
    return {id(item): place for column in columns for place, item in enumerate(column)}


def _barycentre(item: Item, links: list[Link], places: dict[int, int], forward: bool) -> float:
    if forward:
        around = [
            places[id(link.source)] + link.source.right(link.source_row) / link.source.height
            for link in links
            if link.target is item
        ]
    else:
        around = [
            places[id(link.target)] + link.target.left(link.target_row) / link.target.height
            for link in links
            if link.source is item
        ]
    return sum(around) / len(around) if around else places[id(item)] + 0.5


def _crossings(columns: list[list[Item]], links: list[Link]) -> int:
    places = _places(columns)
    spans = [
        (
            link.source.column,
            places[id(link.source)] + link.source.right(link.source_row) / link.source.height,
            places[id(link.target)] + link.target.left(link.target_row) / link.target.height,
        )
        for link in links
    ]
    return sum(
        first[0] == second[0] and (first[1] - second[1]) * (first[2] - second[2]) < 0
        for index, first in enumerate(spans)
        for second in spans[:index]
    )


def _place_columns(layout: Layout) -> None:
    x = 0.0
    for column in layout.columns:
        width = max((item.width for item in column), default=0.0)
        for item in column:
            # Inputs end, results begin and nodes sit in the middle of their column; a passage spans it.
            slack = width - item.width
            kind = item.box.kind if item.box is not None else ""
            item.x = x + (slack if kind in ("input", "entry") else 0.0)
            if kind in ("node", "group"):
                item.x = x + slack / 2
            if item.box is None:
                item.width = width
        x += width + _COLUMN_GAP
    layout.width = max(x - _COLUMN_GAP, 0.0)


def _place_rows(layout: Layout, links: list[Link]) -> None:
    for column in layout.columns:
        y = 0.0
        for item in column:
            item.y = y
            y += item.height + _BOX_GAP
    for pass_ in range(_RELAXATIONS):
        for column in layout.columns if pass_ % 2 == 0 else reversed(layout.columns):
            _settle(column, [_wish(item, links) for item in column])
    top = min((item.y for column in layout.columns for item in column), default=0.0)
    for column in layout.columns:
        for item in column:
            item.y -= top
            layout.height = max(layout.height, item.y + item.height)


def _wish(item: Item, links: list[Link]) -> float:
    """The height at which the item's wires would run level on the whole."""
    wishes = [link.start - link.target.left(link.target_row) for link in links if link.target is item]
    wishes += [link.end - link.source.right(link.source_row) for link in links if link.source is item]
    return sum(wishes) / len(wishes) if wishes else item.y


def _settle(column: list[Item], wishes: list[float]) -> None:
    """Nearest to all wishes, in order and without overlap: isotonic regression, pooling neighbours that collide."""
    offsets, offset = [], 0.0
    for item in column:
        offsets.append(offset)
        offset += item.height + _BOX_GAP
    pools: list[tuple[float, int]] = []
    for wish, shift in zip(wishes, offsets, strict=True):
        pools.append((wish - shift, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (second, many), (first, few) = pools.pop(), pools.pop()
            pools.append(((first * few + second * many) / (few + many), few + many))
    flat = [value for value, count in pools for _ in range(count)]
    for item, value, shift in zip(column, flat, offsets, strict=True):
        item.y = value + shift
