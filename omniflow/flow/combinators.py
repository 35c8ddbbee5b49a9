"""What joins symbols. Several arguments of one call are an AND by themselves."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from omniflow.errors import BadFlow, Problem
from omniflow.flow import places
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.trace import active
from omniflow.flow.use import mistaken

T = TypeVar("T")


def any_of(first: T, second: T, *more: T) -> T:
    """Whichever comes first: `tts.speak(any_of(answer, apology))` runs once, on the first that arrives.

    All must have one type. If one arrival completes several alternatives, the first declared wins.
    """
    trace, source = active(), places.caller()
    if trace is None:
        raise BadFlow.of("any_of", [_outside("any_of", source)])
    views = []
    for each in (first, second, *more):
        if not isinstance(each, Symbol):
            trace.problem(
                "not-a-symbol",
                f"any_of joins values to come, got a constant ({type(each).__name__})",
                "pass inputs of the flow or nodes' results",
                source,
            )
            return cast(T, mistaken(trace, "any_of", source))
        views.append(view(each))
    if any(not seen.origins for seen in views):
        return cast(T, mistaken(trace, "any_of", source))
    if foreign := next((seen for seen in views if seen.trace is not trace), None):
        trace.problem(
            "foreign-symbol",
            f"{foreign.label} belongs to another flow, whose recording is over",
            f"pass it into `{trace.flow}` as an input of its own, or call that flow inside this one",
            source,
        )
        return cast(T, mistaken(trace, "any_of", source))
    types = [seen.type for seen in views if seen.type is not None]
    if any(each.required() != types[0].required() for each in types):
        listed = ", ".join(f"{seen.label} is {seen.type}" for seen in views)
        trace.problem(
            "wrong-type",
            f"any_of joins values of one type: {listed}",
            "convert them to one type by a role first",
            source,
        )
        return cast(T, mistaken(trace, "any_of", source))
    origins = tuple(dict.fromkeys(origin for seen in views for origin in seen.origins))
    label = f"any_of({', '.join(seen.label for seen in views)})"
    maybe = all(seen.maybe for seen in views)
    return cast(T, Symbol(trace, origins, types[0].required(), label, source, maybe))


def given(value: T | None) -> T:
    """An optional value where a method requires one: the node runs only when it came.

    It changes nothing in the graph; type checkers see `T`: `ocr.read(given(image))`.
    """
    return cast(T, value)


def _outside(name: str, source: Any) -> Problem:
    return Problem(
        "outside-flow",
        f"`{name}` is called outside a flow, where there is nothing to record",
        "call it inside a function decorated with @flow",
        source,
    )
