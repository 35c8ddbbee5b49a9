"""What can be wrong with a graph as a whole: what is unused here, what can never work in the core."""

from __future__ import annotations

from omniflow.errors import Problem, Source
from omniflow.flow.compile import Result
from omniflow.flow.symbol import Origin, view
from omniflow.flow.trace import Trace
from omniflow.v1 import flow_pb2
from omniflow_core import check_flow


def check_use(trace: Trace, results: list[Result]) -> list[Problem]:
    """Inputs and nodes that nothing uses: a slip of the pen, or work for nothing."""
    used: set[Origin] = {origin for result in results for origin in view(result.symbol).origins}
    for node in trace.nodes:
        used.update(origin for symbol in node.feeds.values() for origin in view(symbol).origins)
    problems = [
        Problem(
            "unused-input",
            f"{view(symbol).label} of `{trace.flow}` is never used",
            "pass it to a role, or remove it from the function",
            view(symbol).source,
        )
        for symbol in trace.inputs
        if used.isdisjoint(view(symbol).origins)
    ]
    problems += [
        Problem(
            "dangling-node",
            f"nothing uses what `{node.name}` makes, so it would run in vain",
            "pass its result on, return it, or remove the call",
            node.source,
            node.name,
        )
        for node in trace.nodes
        if all(used.isdisjoint(view(output).origins) for output in node.outputs)
    ]
    return problems


def check_graph(flow: flow_pb2.Flow) -> list[Problem]:
    """What the core's validator finds, with the user's lines."""
    problems = []
    for found in check_flow(flow.SerializeToString()):
        node = found.node
        if node is None and found.edge is not None:
            node = _consumer(flow.edges[found.edge])
        named = flow.nodes[node] if node is not None and node < len(flow.nodes) else None
        source = named.source if named is not None else flow.source
        problems.append(
            Problem(
                found.code,
                found.message,
                found.cure,
                Source(source.file, source.line, source.function),
                named.name if named is not None else "",
            )
        )
    return problems


def _consumer(edge: flow_pb2.Edge) -> int | None:
    return edge.to.node if edge.to.place == flow_pb2.End.NODE else None
