"""What reaches a result, told backwards from the results: the rest would run in vain."""

from __future__ import annotations

from dataclasses import dataclass, field

from omniflow.errors import Problem
from omniflow.flow.control import AnyOf, Each, Loop
from omniflow.flow.region import Origin
from omniflow.flow.symbol import Symbol, origins_of, view
from omniflow.flow.trace import ControlNode, RoleNode, Trace, TracedNode


@dataclass(slots=True)
class Usage:
    """`nodes`: indices of those that reach a result; `origins`: the ends that something useful reads."""

    nodes: set[int] = field(default_factory=set)
    origins: set[Origin] = field(default_factory=set)


def usage_of(trace: Trace, results: list[Symbol]) -> Usage:
    """Also decides which fields of its state each loop carries: those that something useful reads."""
    usage = Usage()
    pending = [origin for symbol in results if (origin := view(symbol).origin) is not None]
    while pending:
        origin = pending.pop()
        if origin in usage.origins:
            continue
        usage.origins.add(origin)
        if origin.node is not None:
            pending += _needs(trace.nodes[origin.node], origin.port, origin.node not in usage.nodes)
            usage.nodes.add(origin.node)
    return usage


def _needs(node: TracedNode, port: int, first: bool) -> list[Origin]:
    """What one output port needs; what all of them need when it is the first one asked for."""
    if not (isinstance(node, ControlNode) and isinstance(node.control, Loop)):
        return origins_of(node.fed_by()) if first else []
    loop, count = node.control, len(node.control.fields)
    needed: list[Symbol | None] = [node.gate] if first else []
    needed += [symbol for _, symbol in node.inputs[2 * count :]] if first else []
    if port < 2 * count and port % count not in loop.kept:
        loop.kept = sorted([*loop.kept, port % count])
        needed += [node.inputs[port % count][1], node.inputs[count + port % count][1]]
    return origins_of([symbol for symbol in needed if symbol is not None])


def unused(trace: Trace, usage: Usage) -> list[Problem]:
    """Inputs, parameters and nodes that nothing uses: a slip of the pen, or work for nothing."""
    problems = [
        Problem(
            "unused-input",
            f"{view(symbol).label} of `{trace.flow}` is never used",
            "pass it to a role, or remove it from the function",
            view(symbol).source,
        )
        for symbol in trace.inputs
        if not _read_by(trace, symbol) and view(symbol).origin not in usage.origins
    ]
    return problems + _idle_parameters(trace, usage) + _dangling(trace, usage) + _loops(trace, usage)


def _idle_parameters(trace: Trace, usage: Usage) -> list[Problem]:
    used = {
        id(value)
        for index in usage.nodes
        if isinstance(node := trace.nodes[index], RoleNode)
        for value in node.constants.values()
    }
    return [
        Problem(
            "unused-parameter",
            f"parameter `{name}` of `{trace.flow}` is never used",
            "pass it to a method that takes such a parameter, or remove it from the function",
            view(symbol).source,
        )
        for name, (_, symbol) in trace.parameters.items()
        if id(symbol) not in used
    ]


def _read_by(trace: Trace, symbol: Symbol) -> bool:
    origin = view(symbol).origin
    return any(origin in origins_of(node.fed_by()) for node in trace.nodes)


def _dangling(trace: Trace, usage: Usage) -> list[Problem]:
    """The last of each chain of nodes in vain: what feeds it would be right if it were used."""
    # What a route makes of its branches' fields was not asked for one by one.
    written = {index for index, node in enumerate(trace.nodes) if index in usage.nodes or not _implied(node)}
    read = {origin for index in written for origin in origins_of(trace.nodes[index].fed_by())}
    vain = [index for index in sorted(written) if index not in usage.nodes]
    ends = [index for index in vain if all(Origin(index, port) not in read for port in range(_ports(trace, index)))]
    return [_in_vain(trace.nodes[index]) for index in ends or vain[:1]]


def _implied(node: TracedNode) -> bool:
    return isinstance(node, ControlNode) and isinstance(node.control, AnyOf) and node.control.chosen


def _ports(trace: Trace, index: int) -> int:
    return len(trace.nodes[index].outputs)


def _in_vain(node: TracedNode) -> Problem:
    if isinstance(node, ControlNode) and isinstance(node.control, Each):
        message = "nothing uses the items of this each(...), so it would run in vain"
        cure = "pass the item to a role: `collect(role.method(item) for item in each(stream))`"
    else:
        message = f"nothing uses what `{node.name}` makes, so it would run in vain"
        cure = "pass its result on, return it, or remove the call"
    return Problem("dangling-node", message, cure, node.source, node.name)


def _loops(trace: Trace, usage: Usage) -> list[Problem]:
    problems = []
    for index in usage.nodes:
        node = trace.nodes[index]
        if not (isinstance(node, ControlNode) and isinstance(node.control, Loop)):
            continue
        loop, count = node.control, len(node.control.fields)
        if not loop.kept:
            problems.append(
                Problem(
                    "loop-without-state",
                    f"no round of `{node.name}` reads what the one before made, so all rounds would be the same",
                    "pass the body's argument, or fields of it, to the roles in it",
                    node.source,
                    node.name,
                )
            )
        for kept in loop.kept:
            field = loop.fields[kept]
            for lacking, when in ((node.inputs[kept], "start with"), (node.inputs[count + kept], "go on with")):
                if lacking[1] is None:
                    problems.append(
                        Problem(
                            "state-without-value",
                            f"`{node.name}` carries `{field}`, which is read, and has nothing to {when}: None",
                            f"give `{field}` a value in start= and in what the body returns, or do not read it",
                            node.source,
                            node.name,
                        )
                    )
    return problems
