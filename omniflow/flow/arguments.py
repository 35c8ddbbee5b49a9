"""From the arguments of a recorded call to what feeds the node, with every mistake named."""

from __future__ import annotations

import difflib
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from omniflow.errors import InvalidArgument, Source
from omniflow.flow.admission import admit, settle
from omniflow.flow.symbol import ParameterSymbol, Symbol, view
from omniflow.flow.trace import Trace
from omniflow.roles import MethodSpec, ParameterSpec, PortSpec
from omniflow.roles.description import bundle_values, is_bundle
from omniflow.types import Kind, encode


@dataclass(eq=False)
class Bound:
    """`feeds`: symbols by input; `constants`: values by parameter or input; `mistaken`: a problem was reported."""

    feeds: dict[str, Symbol] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    mistaken: bool = False


def bind(
    trace: Trace, node: str, spec: MethodSpec, arguments: tuple[Any, ...], named: dict[str, Any], source: Source
) -> Bound:
    """Reports to `trace` whatever does not fit."""
    return _Binder(trace, node, spec, source).bind(arguments, named)


class _Binder:
    def __init__(self, trace: Trace, node: str, spec: MethodSpec, source: Source) -> None:
        self._trace = trace
        self._node = node
        self._spec = spec
        self._source = source
        self._bound = Bound()

    def bind(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Bound:
        given = self._by_name(arguments, named)
        spread = self._spread(given)
        for name, value in spread.items():
            port, parameter = self._spec.input(name), self._spec.parameter(name)
            if port is not None:
                self._feed(port, settle(self._trace, value, self._source))
            elif parameter is not None:
                self._set(parameter, value)
        self._missing(given.keys() | spread.keys())
        if not self._bound.feeds and not self._bound.mistaken:
            self._report(
                "node-without-input",
                f"nothing of the flow feeds `{self._node}`, so nothing would start it",
                "pass it an input of the flow or another node's result",
            )
        return self._bound

    def _by_name(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        declared = list(self._spec.signature.parameters.values())[1:]
        positional = [each.name for each in declared if each.kind is not each.KEYWORD_ONLY]
        if len(arguments) > len(positional):
            self._report(
                "too-many-arguments",
                f"`{self._node}` takes at most {len(positional)} by position, got {len(arguments)}",
                f"its signature: {self._signature()}",
            )
        given = dict(zip(positional, arguments, strict=False))
        known = [each.name for each in declared]
        for name, value in named.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{close[0]}`? " if close else ""
                self._report(
                    "unknown-parameter",
                    f"`{self._node}` has no input or parameter `{name}`",
                    f"{hint}its signature: {self._signature()}",
                )
            elif name in given:
                self._report(
                    "argument-twice", f"`{self._node}` gets `{name}` twice", "pass it once, by position or by name"
                )
            else:
                given[name] = value
        return given

    def _spread(self, given: dict[str, Any]) -> dict[str, Any]:
        """With the fields of each bundle on their own, as `argument.field`."""
        spread: dict[str, Any] = {}
        for name, value in given.items():
            bundle = self._spec.bundles.get(name)
            if bundle is None:
                spread[name] = value
            elif isinstance(made := settle(self._trace, value, self._source), bundle):
                spread |= {f"{name}.{field}": each for field, each in bundle_values(made).items()}
            elif isinstance(made, Symbol) and view(made).origin is None:
                self._bound.mistaken = True
            else:
                fields = ", ".join(port.name for port in self._spec.inputs if port.name.startswith(f"{name}."))
                got = view(made).label if isinstance(made, Symbol) else f"a {type(made).__name__}"
                self._report(
                    "wrong-type",
                    f"`{name}` of `{self._node}` wants a {bundle.__name__}, several values ({fields}), got {got}",
                    f"pass what a method or flow that returns {bundle.__name__} made, or {bundle.__name__}(...)",
                )
        return spread

    def _feed(self, port: PortSpec, value: Any) -> None:
        if value is None:
            if port.type.optional:
                return
            self._report(
                "wrong-type", f"`{port.name}` of `{self._node}` wants {port.type}, got None", f"pass {port.type.one}"
            )
        elif not isinstance(value, Symbol) and not is_bundle(value) and not _holds_symbols(value):
            self._constant(port.name, port, value)
        else:
            symbol = admit(self._trace, value, self._source, f"`{port.name}` of `{self._node}`")
            if symbol is None:
                self._bound.mistaken = True
            elif self._accepts(port, symbol):
                self._bound.feeds[port.name] = symbol

    def _accepts(self, port: PortSpec, symbol: Symbol) -> bool:
        seen = view(symbol)
        if seen.origin is None:
            self._bound.mistaken = True
            return False
        if seen.type is not None and not port.type.accepts(seen.type):
            self._report(
                "wrong-type",
                f"`{port.name}` of `{self._node}` wants {port.type}, and {seen.label} is {seen.type} "
                f"(from line {seen.source.line})",
                self._conversion(port, seen.type.stream),
            )
            return False
        return True

    def _conversion(self, port: PortSpec, given_stream: bool) -> str:
        if given_stream and not port.type.stream:
            wanted = "pass collect(...) of it" if port.type.kind is Kind.LIST else "let a role make one value of it"
            return f"{wanted}; or declare `{port.name}` as Stream[...] in the role"
        if port.type.stream and not given_stream:
            return f"use a method that yields {port.type}, or declare `{port.name}` without Stream[...] in the role"
        return f"pass {port.type.required().one}, or use a role that makes one of it"

    def _set(self, parameter: ParameterSpec, value: Any) -> None:
        if isinstance(value, ParameterSymbol):
            self._bind_parameter(parameter, value)
        elif isinstance(value, Symbol):
            if view(value).origin is None:
                self._bound.mistaken = True
                return
            media = "Text" if parameter.type.kind is Kind.TEXT else "Text or a @record"
            self._report(
                "symbol-as-parameter",
                f"`{parameter.name}` of `{self._node}` is a parameter ({parameter.type}), a constant of the flow, "
                f"and {view(value).label} exists only when a job runs",
                f"pass a constant, which jobs may override as `{self._node}.{parameter.name}`; or declare it as "
                f"{media} in the role, which makes it an input",
            )
        elif value is not None or not parameter.type.optional:
            self._constant(parameter.name, parameter, value)

    def _bind_parameter(self, parameter: ParameterSpec, symbol: ParameterSymbol) -> None:
        """A parameter of the flow: its default is the constant here, until a job says otherwise."""
        seen = view(symbol)
        if seen.trace is not self._trace:
            self._report("foreign-symbol", f"{seen.label} belongs to another flow", "pass it into this flow")
        elif seen.type is not None and seen.type.required() != parameter.type.required():
            self._report(
                "wrong-type",
                f"`{parameter.name}` of `{self._node}` wants {parameter.type}, and {seen.label} is {seen.type}",
                f"declare it as {parameter.type} in the flow",
            )
        else:
            self._bound.constants[parameter.name] = symbol

    def _constant(self, name: str, target: PortSpec | ParameterSpec, value: Any) -> None:
        if isinstance(target, PortSpec) and target.type.stream:
            self._report(
                "not-a-symbol",
                f"`{name}` of `{self._node}` wants {target.type}, got a constant ({type(value).__name__})",
                "pass an input of the flow or another node's result",
            )
            return
        try:
            encode(value, target.type, field=name)
        except InvalidArgument as error:
            self._report("wrong-type", f"`{name}` of `{self._node}` {error.message}", error.cure)
        else:
            self._bound.constants[name] = value

    def _missing(self, given: Set[str]) -> None:
        if self._bound.mistaken:
            return  # a misspelt argument would be reported twice
        wanted: list[PortSpec | ParameterSpec] = [*self._spec.inputs, *self._spec.parameters]
        absent = [name for name in self._spec.bundles if name not in given]
        for name in absent:
            self._report(
                "missing-argument",
                f"`{self._node}` lacks its input `{name}` ({self._spec.bundles[name].__name__})",
                f"pass `{name}=...`; its signature: {self._signature()}",
            )
        for each in wanted:
            if each.required and each.name not in given and each.name.partition(".")[0] not in absent:
                kind = "input" if isinstance(each, PortSpec) else "parameter"
                self._report(
                    "missing-argument",
                    f"`{self._node}` lacks its {kind} `{each.name}` ({each.type})",
                    f"pass `{each.name}=...`; its signature: {self._signature()}",
                )

    def _signature(self) -> str:
        shown, named_only = [], False
        for each in list(self._spec.signature.parameters.values())[1:]:
            if each.kind is each.KEYWORD_ONLY and not named_only:
                shown.append("*")
                named_only = True
            default = "" if each.default is each.empty else f" = {each.default!r}"
            shown.append(f"{each.name}: {self._type_of(each.name)}{default}")
        return f"{self._spec.name}({', '.join(shown)})"

    def _type_of(self, name: str) -> str:
        if (bundle := self._spec.bundles.get(name)) is not None:
            return bundle.__name__
        declared = self._spec.input(name) or self._spec.parameter(name)
        return str(declared.type) if declared is not None else "?"

    def _report(self, code: str, message: str, cure: str) -> None:
        self._bound.mistaken = True
        self._trace.problem(code, message, cure, self._source, self._node)


def _holds_symbols(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, Symbol) for each in value)
