"""Which `any_of` nodes become alternatives of the one node that they feed."""

from __future__ import annotations

from collections import Counter

from omniflow.flow.control import AnyOf
from omniflow.flow.region import Origin
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.trace import ControlNode, RoleNode, Trace
from omniflow.flow.usage import Usage


def inlined(trace: Trace, usage: Usage, results: list[Symbol]) -> dict[int, list[Symbol]]:
    """By node: its inputs, in the order in which `any_of` names them.

    One that feeds a required input of a role and nothing else needs no node of its own: the role's node waits for
    whichever comes. An optional input would take None from the first that is closed, and several consumers might each
    see another one first.
    """
    reads = Counter(view(symbol).origin for symbol in results)
    roles: set[Origin | None] = set()
    for index in usage.nodes:
        node = trace.nodes[index]
        reads.update(view(symbol).origin for symbol in node.fed_by())
        if isinstance(node, RoleNode):
            roles.update(
                view(symbol).origin
                for name, symbol in node.feeds.items()
                if (port := node.spec.input(name)) is not None and not port.type.optional
            )
    found = {}
    for index in usage.nodes:
        node, origin = trace.nodes[index], Origin(index, 0)
        if _simple(node) and reads[origin] == 1 and origin in roles:
            found[index] = node.fed_by()
    return found


def _simple(node: object) -> bool:
    """Whether it is an `any_of` over values of its own scope, whenever they come."""
    if not isinstance(node, ControlNode) or not isinstance(node.control, AnyOf):
        return False
    regions = [view(symbol).region for symbol in node.fed_by()]
    alike = all(region is not None and region.scope is node.region.scope for region in regions)
    return not node.control.chosen and node.gate is None and alike and len(regions) > 1
