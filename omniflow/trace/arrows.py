"""From the paths of a flow and the attempts of a job to who read what from whom."""

from collections.abc import Sequence

from omniflow.trace.model import Arrow, Attempt
from omniflow.trace.paths import Path, paths_of
from omniflow.v1 import flow_pb2

# A picture with more is read by nobody, and a fan-out into a fan-out would have millions.
MOST_ARROWS = 10_000


def arrows_of(flow: flow_pb2.Flow, attempts: Sequence[Attempt]) -> list[Arrow]:
    """At most `MOST_ARROWS`. Of several attempts at one activation each may have read, and the last speaks for it."""
    by_node: dict[str, list[int]] = {}
    for index, attempt in enumerate(attempts):
        by_node.setdefault(attempt.node, []).append(index)
    arrows: list[Arrow] = []
    for path in paths_of(flow):
        arrows += _along(path, flow, attempts, by_node, MOST_ARROWS - len(arrows))
        if len(arrows) == MOST_ARROWS:
            break
    return arrows


def results_of(flow: flow_pb2.Flow) -> dict[str, tuple[str, str]]:
    """By result: the node and the output of it that it comes from. Of several (`any_of`) the first."""
    found: dict[str, tuple[str, str]] = {}
    for path in paths_of(flow):
        if path.target is None:
            node = flow.nodes[path.source]
            found.setdefault(flow.results[path.input].name, (node.name, node.outputs[path.output].name))
    return found


def _along(
    path: Path, flow: flow_pb2.Flow, attempts: Sequence[Attempt], by_node: dict[str, list[int]], most: int
) -> list[Arrow]:
    if path.target is None:
        return []
    source, target = flow.nodes[path.source], flow.nodes[path.target]
    output, input_ = source.outputs[path.output].name, target.inputs[path.input].name
    readers = by_node.get(target.name, [])
    by_key: dict[tuple[int, ...], list[int]] = {}
    for read in readers:
        by_key.setdefault(attempts[read].key, []).append(read)
    arrows: list[Arrow] = []
    for made in _speakers(attempts, by_node.get(source.name, [])):
        key = attempts[made].key
        only = path.only_key(key)
        # Key by key in a wide fan-out: looked up, not compared with all the others.
        near = readers if only is None else by_key.get(only, [])
        arrows += [Arrow(made, read, output, input_) for read in near if path.joins(key, attempts[read].key)]
        if len(arrows) >= most:
            return arrows[:most]
    return arrows


def _speakers(attempts: Sequence[Attempt], indices: Sequence[int]) -> list[int]:
    """The last attempt for each key, where it has given anything."""
    last = {attempts[index].key: index for index in sorted(indices, key=lambda index: attempts[index].number)}
    return [index for index in last.values() if attempts[index].first_frame is not None]
