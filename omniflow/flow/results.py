"""What a flow returns: its ports from the annotation, their symbols from the recording."""

from __future__ import annotations

import typing
from dataclasses import fields
from typing import Any

from omniflow.errors import Source
from omniflow.flow.compile import Result
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.trace import Trace
from omniflow.roles import PortSpec
from omniflow.roles.description import output_ports
from omniflow.types import BadAnnotation, is_record, value_type


def result_ports(trace: Trace, annotation: Any, annotated: bool, source: Source) -> list[PortSpec]:
    """Names and types of the results: "result", the fields of a NamedTuple or record, or "result0", "result1", …"""
    if not annotated or annotation is type(None):
        trace.problem(
            "no-result",
            f"flow `{trace.flow}` does not say what it returns",
            "annotate it, e.g. `-> Stream[Text]`; several results: a NamedTuple whose fields name them",
            source,
        )
        return []
    try:
        arguments = typing.get_args(annotation)
        if typing.get_origin(annotation) is tuple and ... not in arguments:
            ports = [PortSpec(f"result{index}", value_type(each)) for index, each in enumerate(arguments)]
        else:
            ports = list(output_ports(annotation)[0])
    except BadAnnotation as error:
        trace.problem("bad-annotation", f"what `{trace.flow}` returns: {error.message}", error.cure, source)
        return []
    for port in ports:
        if port.type.plain:
            trace.problem(
                "bad-annotation",
                f"result `{port.name}` is {port.type}, which is for parameters of roles",
                "write Text, or a @record that holds the numbers",
                source,
            )
    return ports


def read_results(trace: Trace, ports: list[PortSpec], returned: Any, source: Source) -> list[Result]:
    """Pairs each port with the symbol returned for it; reports what does not fit."""
    if len(ports) == 1 and isinstance(returned, Symbol):
        values: list[Any] = [returned]
    elif isinstance(returned, tuple):
        values = list(returned)
    elif is_record(type(returned)):
        values = [getattr(returned, each.name) for each in fields(returned)]
    else:
        values = [returned]
    if len(values) != len(ports):
        names = ", ".join(f"{port.name}: {port.type}" for port in ports)
        trace.problem(
            "result-count",
            f"`{trace.flow}` returns {len(values)} results and declares {len(ports)} ({names})",
            "return one symbol for each, or correct the annotation",
            source,
        )
        return []
    return [Result(port, value) for port, value in zip(ports, values, strict=True) if _fits(trace, port, value, source)]


def _fits(trace: Trace, port: PortSpec, value: Any, source: Source) -> bool:
    if not isinstance(value, Symbol):
        what = "nothing (None)" if value is None else f"a constant ({type(value).__name__})"
        trace.problem(
            "not-a-symbol",
            f"result `{port.name}` of `{trace.flow}` is {what}, not something that the flow computes",
            "return an input of the flow or a node's result",
            source,
        )
        return False
    seen = view(value)
    if seen.trace is not trace:
        trace.problem(
            "foreign-symbol",
            f"{seen.label} belongs to another flow, whose recording is over",
            f"compute it inside `{trace.flow}`",
            source,
        )
    elif len(seen.origins) > 1:
        trace.problem(
            "any-of-result",
            f"result `{port.name}` is {seen.label}, but only a role's input can be an any_of",
            "pass it to a role and return what that makes, or return each alternative as a result of its own",
            source,
        )
    elif seen.type is not None and not port.type.accepts(seen.type):
        trace.problem(
            "wrong-type",
            f"result `{port.name}` is declared {port.type}, and {seen.label} (line {seen.source.line}) is {seen.type}",
            f"declare it as {seen.type}, or return something else",
            source,
        )
    elif seen.maybe and not port.type.optional:
        trace.problem(
            "optional-result",
            f"result `{port.name}` is declared {port.type}, but {seen.label} is missing when an optional input is",
            f"declare it as `{port.type} | None`, or pass the optional value to an input that is `T | None`",
            source,
        )
    else:
        return bool(seen.origins)
    return False
