"""What the core's validator finds in a compiled graph, with the user's lines."""

from __future__ import annotations

from omniflow.errors import Problem, Source
from omniflow.v1 import flow_pb2
from omniflow_core import check_flow


def check_graph(flow: flow_pb2.Flow) -> list[Problem]:
    """Every reason why the graph can never work; empty when there is none."""
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
