"""A flow that is called inside another one: what does not fit is said of that call, not of a line inside of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from omniflow.errors import BadFlow, InvalidArgument, Problem, Source
from omniflow.flow.symbol import ParameterSymbol, Symbol, view
from omniflow.types import BadAnnotation, ValueType, encode, resolve_hints, value_type


def check_call(
    flow: str, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], source: Source
) -> None:
    """Raises `BadFlow` for values that are not what the flow's annotations say. Wrong names are Python's to report."""
    try:
        given = inspect.signature(function).bind(*arguments, **named).arguments
        hints = resolve_hints(function)
    except (TypeError, BadAnnotation):
        return
    problems = [
        Problem("wrong-type", message, cure, source, flow)
        for name, value in given.items()
        if (type := _type_of(hints.get(name))) is not None
        for message, cure in _mistakes(f"`{name}` of flow `{flow}`", name, type, value)
    ]
    if problems:
        raise BadFlow.of(flow, problems)


def _type_of(annotation: Any) -> ValueType | None:
    """None for a bundle and for what is wrong by itself: the flow is compiled on its own, too."""
    try:
        return value_type(annotation)
    except BadAnnotation:
        return None


def _mistakes(target: str, name: str, type: ValueType, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Symbol):
        seen = view(value)
        if type.plain and not isinstance(value, ParameterSymbol):
            if seen.origin is not None:
                yield (
                    f"{target} is a parameter ({type}), a constant of the flow, and {seen.label} exists only when a "
                    "job runs",
                    "pass a constant or a parameter of this flow, or declare it in the called flow as Text or a "
                    "@record, which makes it an input",
                )
        elif seen.type is not None and not type.accepts(seen.type):
            yield (
                f"{target} wants {type}, and {seen.label} is {seen.type} (from line {seen.source.line})",
                f"pass {type.required().one}",
            )
    elif type.plain and not (value is None and type.optional):
        try:
            encode(value, type, field=name)
        except InvalidArgument as error:
            yield f"{target} {error.message}", error.cure
