"""From the graph to scenes in scenes: one for the flow, one for each scope."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omniflow.flow.draw.scene import Box, PortRow, Scene, Wire, node_box, row
from omniflow.types import ValueType
from omniflow.v1 import flow_pb2

_CLOSERS = ("collect", "ordered", "unordered")
Place = tuple[Box, int]


def scene_of(flow: flow_pb2.Flow) -> Scene:
    """The whole flow."""
    return _Builder(flow).build()


@dataclass(frozen=True, slots=True)
class _Line:
    """A wire between boxes, before they have numbers."""

    scope: int
    source: Place
    target: Place
    type: ValueType


class _Builder:
    def __init__(self, flow: flow_pb2.Flow) -> None:
        self._flow = flow
        self._scenes = [Scene(flow.name), *(Scene(scope.name) for scope in flow.scopes)]
        self._groups: dict[int, Box] = {}
        self._nodes: dict[int, Box] = {}
        self._entries: dict[tuple[int, int, int, int], Box] = {}
        self._exits: dict[tuple[int, int], Box] = {}
        self._lines: list[_Line] = []
        self._inputs = [Box("input", port.name, outputs=[row(port)]) for port in flow.inputs]
        self._results = [Box("result", port.name, inputs=[row(port)]) for port in flow.results]

    def build(self) -> Scene:
        self._scenes[0].boxes += self._inputs
        for index, node in enumerate(self._flow.nodes):
            self._place(index, node)
        for edge in self._flow.edges:
            self._connect(edge)
        self._scenes[0].boxes += self._results
        for scope, scene in enumerate(self._scenes):
            self._finish(scope, scene)
        return self._scenes[0]

    def _place(self, index: int, node: flow_pb2.Node) -> None:
        kind = node.WhichOneof("control") or ""
        if kind in ("each", "loop"):
            inner = (node.each if kind == "each" else node.loop).scope
            title = self._flow.scopes[inner - 1].name
            if kind == "loop":
                title = f"{title}, at most {node.loop.max_rounds} rounds"
            group = Box("group", title, control=kind, scene=self._scenes[inner])
            self._groups[inner] = group
            self._scenes[node.scope].boxes.append(group)
        elif not _closes(node):
            self._nodes[index] = node_box(node)
            self._scenes[node.scope].boxes.append(self._nodes[index])

    def _connect(self, edge: flow_pb2.Edge) -> None:
        start = getattr(edge, "from")
        type = ValueType.from_proto(edge.type)
        target = self._target(edge.to, type)
        if target is None or self._is_count(start):
            return
        scope, place = target
        self._lines.append(_Line(scope, self._source(start, scope, type), place, type))

    def _is_count(self, end: flow_pb2.End) -> bool:
        node = self._flow.nodes[end.node] if end.place == flow_pb2.End.NODE else None
        return node is not None and node.HasField("each") and end.port + 1 == len(node.outputs)

    def _target(self, end: flow_pb2.End, type: ValueType) -> tuple[int, Place] | None:
        """The scene and place where an edge ends; None for one that isn't drawn."""
        if end.place == flow_pb2.End.RESULT:
            return 0, (self._results[end.port], 0)
        node = self._flow.nodes[end.node]
        if end.node in self._nodes:
            return node.scope, (self._nodes[end.node], end.port)
        if node.HasField("each"):
            return node.scope, self._door(node.each.scope, end.node, end.port, self._item(node, end.port))
        if node.HasField("loop"):
            return self._into_loop(node, end)
        if end.port > 0:
            return None
        inner = _inner(node)
        return inner, (self._exit(inner, end.node, 0, node.WhichOneof("control") or "", type), 0)

    def _into_loop(self, node: flow_pb2.Node, end: flow_pb2.End) -> tuple[int, Place]:
        loop, name = node.loop, node.inputs[end.port].name
        if end.port < loop.carried or end.port >= 2 * loop.carried + 1 + loop.emitted:
            state = row(node.outputs[end.port]) if end.port < loop.carried else row(node.inputs[end.port])
            return node.scope, self._door(loop.scope, end.node, end.port, replace(state, name=_bare(state.name)))
        first = end.port < 2 * loop.carried
        what = f"next {_bare(name)}" if first else name.replace(".", " ")
        box = self._exit(loop.scope, end.node, end.port, what, ValueType.from_proto(node.inputs[end.port].type))
        if first:
            entry = self._entry(loop.scope, (1, end.node, end.port - loop.carried), None)
            self._scenes[loop.scope].turns.append((box, entry))
        return loop.scope, (box, 0)

    def _item(self, node: flow_pb2.Node, port: int) -> PortRow:
        return row(node.outputs[port]) if port + 1 < len(node.outputs) else row(node.inputs[port])

    def _source(self, end: flow_pb2.End, scope: int, type: ValueType) -> Place:
        """Where an edge comes from, as seen in the scene of `scope`: from outside it comes in by an entry."""
        home, place, key = self._home(end)
        if home == scope and place is not None:
            return place
        if home == scope:
            return self._entry(scope, key, None), 0
        known = (scope, *key) in self._entries
        label = self._label(end)
        entry = self._entry(scope, key, PortRow(label, type))
        if not known:
            outer = self._flow.scopes[scope - 1].parent
            self._lines.append(_Line(outer, self._source(end, outer, type), self._doorway(scope, entry), type))
        return entry, 0

    def _home(self, end: flow_pb2.End) -> tuple[int, Place | None, tuple[int, int, int]]:
        """The scope of an output, its place there, or None when it is an entry, and what the entry is known by."""
        if end.place == flow_pb2.End.INPUT:
            return 0, (self._inputs[end.port], 0), (0, 0, end.port)
        node, key = self._flow.nodes[end.node], (1, end.node, end.port)
        if end.node in self._nodes:
            return node.scope, (self._nodes[end.node], end.port), key
        if node.HasField("each"):
            return node.each.scope, None, key
        if node.HasField("loop"):
            if end.port < node.loop.carried:
                return node.loop.scope, None, key
            return node.scope, self._out_of_loop(node, end), key
        name = node.WhichOneof("control") or ""
        inner = _inner(node)
        exit_ = self._exit(inner, end.node, 0, name, ValueType.from_proto(node.inputs[0].type))
        return node.scope, self._way_out(inner, exit_, PortRow(name, row(node.outputs[0]).type)), key

    def _out_of_loop(self, node: flow_pb2.Node, end: flow_pb2.End) -> Place:
        loop, port = node.loop, end.port
        final = port < 2 * loop.carried
        fed = port if final else port + 1
        name = node.inputs[fed].name
        what = f"next {_bare(name)}" if final else name.replace(".", " ")
        exit_ = self._exit(loop.scope, end.node, fed, what, ValueType.from_proto(node.inputs[fed].type))
        shown = f"last {_bare(name)}" if final else _bare(name)
        return self._way_out(loop.scope, exit_, PortRow(shown, row(node.outputs[port]).type))

    def _way_out(self, inner: int, exit_: Box, shown: PortRow) -> Place:
        group = self._groups[inner]
        if exit_ not in group.doors:
            group.doors.append(exit_)
            group.outputs.append(shown)
        return group, group.doors.index(exit_)

    def _door(self, inner: int, node: int, port: int, shown: PortRow) -> Place:
        """The input row of a group for what it makes its keys from."""
        return self._doorway(inner, self._entry(inner, (1, node, port), shown))

    def _doorway(self, inner: int, entry: Box) -> Place:
        return self._groups[inner], self._scenes[inner].entries().index(entry)

    def _entry(self, scope: int, key: tuple[int, int, int], shown: PortRow | None) -> Box:
        known = self._entries.get((scope, *key))
        if known is None:
            shown = shown or row(self._flow.nodes[key[1]].outputs[key[2]])
            shown = replace(shown, name=_bare(shown.name))
            known = self._entries[scope, *key] = Box("entry", shown.name, outputs=[shown])
            self._scenes[scope].boxes.append(known)
            self._groups[scope].inputs.append(shown)
        return known

    def _exit(self, scope: int, node: int, port: int, what: str, type: ValueType) -> Box:
        known = self._exits.get((node, port))
        if known is None:
            known = self._exits[node, port] = Box("exit", what, inputs=[PortRow(what, type)])
            self._scenes[scope].boxes.append(known)
        return known

    def _label(self, end: flow_pb2.End) -> str:
        if end.place == flow_pb2.End.INPUT:
            return self._flow.inputs[end.port].name
        node = self._flow.nodes[end.node]
        name = node.outputs[end.port].name
        return node.name if name == "result" else _bare(name)

    def _finish(self, scope: int, scene: Scene) -> None:
        """Numbers the boxes, what feeds others before them, and draws the wires by these numbers."""
        lines = [line for line in self._lines if line.scope == scope]
        fed = {id(box): [id(line.source[0]) for line in lines if line.target[0] is box] for box in scene.boxes}
        ordered: list[Box] = []
        done: set[int] = set()
        waiting = list(scene.boxes)
        while waiting:
            ready = next((box for box in waiting if all(each in done for each in fed[id(box)])), waiting[0])
            waiting.remove(ready)
            ordered.append(ready)
            done.add(id(ready))
        numbers = {id(box): number for number, box in enumerate(ordered)}
        scene.boxes = ordered
        scene.wires = [
            Wire(numbers[id(line.source[0])], line.source[1], numbers[id(line.target[0])], line.target[1], line.type)
            for line in lines
        ]


def _closes(node: flow_pb2.Node) -> bool:
    return node.WhichOneof("control") in _CLOSERS and _inner(node) > 0


def _inner(node: flow_pb2.Node) -> int:
    kind = node.WhichOneof("control") or ""
    return int(getattr(node, kind).scope) if kind in _CLOSERS else 0


def _bare(name: str) -> str:
    """ "todo" of "state.todo"."""
    start, _, rest = name.partition(".")
    return rest if start in ("state", "start", "next", "final", "emit") else name
