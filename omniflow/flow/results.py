"""What a flow returns: its ports from the annotation, their symbols from the recording."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from omniflow.errors import Source
from omniflow.flow.admission import admit, settle
from omniflow.flow.compile import Result
from omniflow.flow.region import Only
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.trace import Trace
from omniflow.roles import PortSpec
from omniflow.roles.description import bundle_values, is_bundle, output_ports
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
    with trace.recording():
        made = settle(trace, returned, source)
        values = _values(made, ports)
        if len(values) != len(ports):
            names = ", ".join(f"{port.name}: {port.type}" for port in ports)
            trace.problem(
                "result-count",
                f"`{trace.flow}` returns {len(values)} results and declares {len(ports)} ({names})",
                "return one symbol for each, or correct the annotation",
                source,
            )
            return []
        fitted = [_fitted(trace, port, value, source) for port, value in zip(ports, values, strict=True)]
    return [Result(port, value) for port, value in zip(ports, fitted, strict=True) if value is not None]


def _values(made: Any, ports: list[PortSpec]) -> list[Any]:
    if is_bundle(made) and [port.name for port in ports] != list(bundle_values(made)) and len(ports) == 1:
        return [made]  # a whole bundle where one value is declared: said to be so
    if isinstance(made, tuple):
        return list(made)
    if is_record(type(made)):
        return [getattr(made, each.name) for each in fields(made)]
    return [made]


def _fitted(trace: Trace, port: PortSpec, value: Any, source: Source) -> Symbol | None:
    if value is None or (not isinstance(value, Symbol | Iterator) and not is_bundle(value)):
        what = "nothing (None)" if value is None else f"a constant ({type(value).__name__})"
        trace.problem(
            "not-a-symbol",
            f"result `{port.name}` of `{trace.flow}` is {what}, not something that the flow computes",
            "return an input of the flow or a node's result",
            source,
        )
        return None
    symbol = admit(trace, value, source, f"result `{port.name}`")
    if symbol is None or view(symbol).origin is None:
        return None
    seen = view(symbol)
    if seen.type is not None and not port.type.accepts(seen.type):
        trace.problem(
            "wrong-type",
            f"result `{port.name}` is declared {port.type}, and {seen.label} (line {seen.source.line}) is {seen.type}",
            f"declare it as {seen.type}, or return something else",
            source,
        )
    elif seen.maybe and not port.type.optional:
        trace.problem(
            "optional-result",
            f"result `{port.name}` is declared {port.type}, but {seen.label} is missing when {_why(seen.only)}",
            f"declare it as `{port.type} | None`, or pass the optional value to an input that is `T | None`",
            source,
        )
    else:
        return symbol
    return None


def _why(only: Only) -> str:
    if not only:
        return "something optional that it needs is"
    return f"none of the branches {', '.join(sorted(set().union(*only.values())))} is taken"
