"""From what a user passes to a symbol that may be used here: generators are run, scopes are left and entered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omniflow.errors import BadFlow, Problem, Source
from omniflow.flow import places
from omniflow.flow.control import Ordered
from omniflow.flow.region import Region
from omniflow.flow.symbol import ParameterSymbol, Symbol, view
from omniflow.flow.trace import Trace, active
from omniflow.roles.description import bundle_values, is_bundle


def recording(name: str) -> tuple[Trace, Source]:
    """The recording in progress, and the user's line. Raises `BadFlow` when there is none."""
    trace, source = active(), places.caller()
    if trace is None:
        problem = Problem(
            "outside-flow",
            f"`{name}` is called outside a flow, where there is nothing to record",
            "call it inside a function decorated with @flow",
            source,
        )
        raise BadFlow.of(name, [problem])
    return trace, source


def settle(trace: Trace, value: Any, source: Source) -> Any:
    """The value itself, or what a generator expression yields: once for all items of its `each`.

    A generator counts as the one value that it records, however often it is used.
    """
    if not isinstance(value, Iterator) or isinstance(value, Symbol):
        return value
    known = trace.gathered.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    before = trace.region
    made = list(value)
    if trace.region is not before:
        trace.region = before
    if len(made) != 1:
        trace.problem(
            "not-an-each",
            f"this generator makes {len(made)} values while the flow is recorded, and one for each item is wanted",
            "let it go over each(...) alone: `role.method(item) for item in each(stream)`; several each need a collect "
            "around every one",
            source,
        )
        result: Any = trace.mistaken("the generator", source)
    else:
        result = made[0]
    trace.gathered[id(value)] = (value, result)
    return result


def admit(trace: Trace, value: Any, source: Source, used: str) -> Symbol | None:
    """The symbol to use for `value` in the current region, or None once a problem is reported.

    `used`: what it is passed to, for messages. A mistaken symbol passes, so that it's reported once.
    """
    value = settle(trace, value, source)
    if not isinstance(value, Symbol):
        trace.problem("not-a-symbol", f"{used} {_described(value)}", _cure_of(value), source)
        return None
    seen = view(value)
    if seen.trace is not trace:
        trace.problem(
            "foreign-symbol",
            f"{seen.label} belongs to another flow, whose recording is over",
            f"pass it into `{trace.flow}` as an input of its own, or call that flow inside this one",
            source,
        )
        return None
    if isinstance(value, ParameterSymbol):
        trace.problem(
            "parameter-as-input",
            f"{used} gets {seen.label}, a constant of each job, which only parameters of roles' methods take",
            "declare it as Text (or a @record) to make it an input of the flow",
            source,
        )
        return None
    if seen.origin is None or seen.region is None:
        return value
    if trace.region.within(seen.region):
        return _entering(trace, value, seen.region, source)
    left = leaving(trace, value, source)
    return None if left is None else _entering(trace, _ordered(trace, value, left, source), left.parent, source)


def _entering(trace: Trace, symbol: Symbol | None, home: Region | None, source: Source) -> Symbol | None:
    """Rule 3: a value from outside is there for every key; a stream could be read by one key only."""
    if symbol is None or home is None:
        return None
    seen = view(symbol)
    entered = trace.region.scopes_below(home)
    if entered and seen.type is not None and seen.type.stream:
        inner = entered[0]
        often = "round" if inner.kind == "loop" else "item"
        trace.problem(
            "outer-stream",
            f"{seen.label} is a {seen.type} from outside of {inner.label} (line {inner.source.line}), which runs once "
            f"per {often}; a stream passes once, and every {often} would need it anew",
            f"collect it first, before the {inner.kind}: `whole = collect(...)`",
            source,
        )
        return None
    return symbol


def leaving(trace: Trace, symbol: Symbol, source: Source) -> Region | None:
    """The `each` that a symbol from outside of the current region comes out of; None once a problem is reported."""
    seen = view(symbol)
    left = []
    for region in seen.region.chain() if seen.region is not None else ():
        if trace.region.within(region):
            break
        left.append(region)
    bad = next((region for region in left if region.kind != "each"), None)
    if bad is not None:
        way = {
            "branch": "return it from the branch: what route(...) returns is what the branch taken made",
            "loop": "return it from the loop's body, as a field that is carried or named by emit=",
        }
        trace.problem(
            "left-scope",
            f"{seen.label} is made inside {bad.label} (line {bad.source.line}), and nothing else leaves it",
            way.get(bad.kind, "collect it"),
            source,
        )
        return None
    if len(left) > 1:
        trace.problem(
            "nested-each",
            f"{seen.label} comes out of {len(left)} each(...) at once: {left[0].label} and, around it, {left[1].label}",
            "put a collect around every each: `collect(collect(... for b in each(...)) for a in each(...))`",
            source,
        )
        return None
    return left[0]


def plain_item(trace: Trace, symbol: Symbol, left: Region, source: Source) -> bool:
    """Rule 4: streams inside a key are not flattened. Reports one that would have to be."""
    seen = view(symbol)
    if seen.type is None or not seen.type.stream:
        return True
    trace.problem(
        "stream-of-streams",
        f"{seen.label} is a {seen.type} for every item of {left.label}, and streams are not joined end to end",
        "collect each one inside: `collect(collect(role.method(item)) for item in each(...))`, or let a role make one "
        "value of it",
        source,
    )
    return False


def exit_inputs(trace: Trace, symbol: Symbol, left: Region) -> list[tuple[str, Symbol | None]]:
    """The ports of what closes an each: the value of every key, and how many there are."""
    return [("value", symbol), ("count", trace.nodes[left.node].outputs[-1])]


def source_maybe(trace: Trace, left: Region) -> bool:
    """Whether the each itself may be closed."""
    return any(view(symbol).maybe for symbol in trace.nodes[left.node].fed_by())


def _ordered(trace: Trace, symbol: Symbol, left: Region, source: Source) -> Symbol | None:
    seen = view(symbol)
    if seen.type is None or left.parent is None or not plain_item(trace, symbol, left, source):
        return None
    node = trace.add_control(Ordered(left.node), exit_inputs(trace, symbol, left), source, left.parent)
    label = f"{seen.label} for each item"
    return trace.output(node, seen.type.streamed(), label, maybe=source_maybe(trace, left))


def _described(value: Any) -> str:
    if value is None:
        return "gets None"
    if is_bundle(value):
        names = ", ".join(f"`{name}`" for name in bundle_values(value))
        return f"gets a whole {type(value).__name__}, several values ({names})"
    if isinstance(value, tuple | list):
        return f"gets a {type(value).__name__} of {len(value)}"
    return f"gets a constant ({type(value).__name__})"


def _cure_of(value: Any) -> str:
    if is_bundle(value):
        name = next(iter(bundle_values(value)))
        return f"pass one of its fields, e.g. `.{name}`"
    if isinstance(value, list):
        return (
            "write `collect(... for item in each(stream))`: an `each` is recorded once for all items, so a Python "
            "list cannot hold what they make; a fixed number of values: one input each"
        )
    return "pass an input of the flow or another node's result"
