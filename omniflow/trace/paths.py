"""Which roles feed which in a flow, past the control nodes between them, and how keys change on the way.

The keys of an activation are known from the report, those of the frames between two are not: this follows them through
the graph. A step of a key is an index of the producer's key (plus the rounds of a loop that were passed), or any index.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from omniflow.v1 import flow_pb2


@dataclass(frozen=True, slots=True)
class Step:
    """One index of a key. `position`: it is the producer's index there, plus `offset`; None with `any`: whatever it
    is; None without: `offset` itself."""

    position: int | None = None
    offset: int = 0
    any: bool = False

    def index(self, key: Sequence[int]) -> int:
        """The consumer's index, where `key` is the producer's. Not with `any`."""
        return self.offset + (0 if self.position is None else key[self.position])


ANY = Step(any=True)
FIRST_ROUND = Step()
KeySteps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """From an output of a role's node to an input of another's, or to a result (`target` is None, `input` names it)."""

    source: int
    output: int
    target: int | None
    input: int
    steps: KeySteps

    def joins(self, produced: Sequence[int], consumed: Sequence[int]) -> bool:
        """Whether what the activation of key `produced` makes goes into that of key `consumed`."""
        if len(self.steps) != len(consumed):
            return False
        pairs = zip(self.steps, consumed, strict=True)
        return all(step.any or step.index(produced) == index for step, index in pairs)

    def only_key(self, produced: Sequence[int]) -> tuple[int, ...] | None:
        """The one key that what `produced` makes goes to; None when there may be several."""
        if any(step.any for step in self.steps):
            return None
        return tuple(step.index(produced) for step in self.steps)


def paths_of(flow: flow_pb2.Flow) -> list[Path]:
    """Every path of the flow, by source and output. An edge is followed once from each output: rounds may repeat."""
    graph = _Graph(flow)
    roles = [index for index, node in enumerate(flow.nodes) if node.role]
    return [path for node in roles for port in range(len(flow.nodes[node].outputs)) for path in graph.from_(node, port)]


class _Graph:
    def __init__(self, flow: flow_pb2.Flow) -> None:
        self._flow = flow
        self._leaving: dict[tuple[int, int], list[int]] = {}
        for index, edge in enumerate(flow.edges):
            start = getattr(edge, "from")
            if start.place == flow_pb2.End.NODE:
                self._leaving.setdefault((start.node, start.port), []).append(index)

    def from_(self, node: int, port: int) -> Iterator[Path]:
        start = tuple(Step(position) for position in range(self._depth(self._flow.nodes[node].scope)))
        waiting = deque([((node, port), start)])
        seen: set[int] = set()
        while waiting:
            place, steps = waiting.popleft()
            for index in self._leaving.get(place, ()):
                if index in seen:
                    continue
                seen.add(index)
                end = self._flow.edges[index].to
                if end.place == flow_pb2.End.RESULT:
                    yield Path(node, port, None, end.port, steps)
                elif self._flow.nodes[end.node].role:
                    yield Path(node, port, end.node, end.port, self._into(end.node, steps))
                else:
                    waiting.extend(self._through(end.node, end.port, steps))

    def _depth(self, scope: int) -> int:
        """How long the keys in a scope are."""
        depth = 0
        while scope:
            depth, scope = depth + 1, self._flow.scopes[scope - 1].parent
        return depth

    def _into(self, node: int, steps: KeySteps, inner: int = 0) -> KeySteps:
        """A frame from an outer scope goes to every key that extends its own. `inner`: scopes further in."""
        return steps + (ANY,) * (self._depth(self._flow.nodes[node].scope) + inner - len(steps))

    def _through(self, node: int, port: int, steps: KeySteps) -> Iterator[tuple[tuple[int, int], KeySteps]]:
        """The outputs of a control node that what comes in by `port` goes on by."""
        spec = self._flow.nodes[node]
        outputs = range(len(spec.outputs))
        match spec.WhichOneof("control"):
            case "each":
                # The last one, "count", carries no frame.
                yield from (((node, output), (*self._into(node, steps), ANY)) for output in outputs[:-1])
            case "collect" | "ordered" | "unordered" as kind:
                leaves = getattr(spec, kind).scope > 0
                yield (node, 0), self._into(node, steps, 1)[:-1] if leaves else self._into(node, steps)
            case "zip":
                yield (node, port), self._into(node, steps)
            case "loop":
                yield from self._through_loop(node, port, steps)
            case _:
                yield from (((node, output), self._into(node, steps)) for output in outputs)

    def _through_loop(self, node: int, port: int, steps: KeySteps) -> Iterator[tuple[tuple[int, int], KeySteps]]:
        """Starts become the first round's states, nexts the next round's and the finals, emits leave as streams."""
        carried = self._flow.nodes[node].loop.carried
        if port < carried:
            yield (node, port), (*self._into(node, steps), FIRST_ROUND)
            return
        *outer, round_ = self._into(node, steps, 1)
        if port < 2 * carried:
            later = round_ if round_.any else replace(round_, offset=round_.offset + 1)
            yield (node, port - carried), (*outer, later)
            yield (node, port), tuple(outer)
        elif port > 2 * carried:
            yield (node, port - 1), tuple(outer)
