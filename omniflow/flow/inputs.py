"""What a flow takes: inputs and parameters, read from its signature, and the symbols that stand for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from omniflow.errors import InvalidArgument, Source
from omniflow.flow.places import FunctionPlaces
from omniflow.flow.region import Origin
from omniflow.flow.symbol import ParameterSymbol, Symbol, SymbolView
from omniflow.flow.trace import Trace
from omniflow.roles import ParameterSpec, PortSpec
from omniflow.roles.description import bundle_ports
from omniflow.types import BadAnnotation, ValueType, encode, value_type


class Inputs:
    """`ports`: what a job brings; `arguments`: what the flow's function is called with. Reports what's wrong.

    A NamedTuple stands for its fields, each an input under its own name.
    """

    def __init__(
        self, trace: Trace, function: Callable[..., Any], places: FunctionPlaces, hints: dict[str, Any]
    ) -> None:
        self.ports: list[PortSpec] = []
        self.arguments: dict[str, Any] = {}
        self._trace = trace
        for parameter in inspect.signature(function).parameters.values():
            source = places.parameters.get(parameter.name, places.definition)
            if self._declared(parameter, hints, source):
                self._read(parameter, hints[parameter.name], source)

    def _declared(self, parameter: inspect.Parameter, hints: dict[str, Any], source: Source) -> bool:
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            self._report("bad-input", f"a flow cannot take `*{name}`", "name every input", source)
        elif name not in hints:
            self._report(
                "bad-input", f"input `{name}` has no annotation", f"say what it is, e.g. `{name}: Text`", source
            )
        else:
            return True
        return False

    def _read(self, parameter: inspect.Parameter, annotation: Any, source: Source) -> None:
        name = parameter.name
        try:
            ports = bundle_ports(annotation)
            type = value_type(annotation) if ports is None else None
        except BadAnnotation as error:
            self._report("bad-annotation", f"input `{name}`: {error.message}", error.cure, source)
            return
        if ports is not None:
            symbols = {port.name: self._input(port.name, port.type, parameter, source) for port in ports}
            self.arguments[name] = annotation(**symbols)
        elif type is not None and type.plain:
            self._parameter(name, type, parameter.default, source)
        elif type is not None:
            self.arguments[name] = self._input(name, type, parameter, source)

    def _input(self, name: str, type: ValueType, parameter: inspect.Parameter, source: Source) -> Symbol:
        label = f"input `{name}`"
        if parameter.default not in (parameter.empty, None):
            self._report(
                "bad-input",
                f"{label} has a default",
                "make it optional (`T | None = None`), or give the constant to the role's method in the flow",
                source,
            )
        elif parameter.default is None and not type.optional:
            self._report(
                "bad-input",
                f"{label} is None by default but {type}",
                f"write `{name}: {type} | None = None`",
                source,
            )
        elif type.plain:
            self._report(
                "bad-input",
                f"{label} is {type}, which is for parameters",
                "write Text for words, or a @record that holds the numbers",
                source,
            )
        elif any(port.name == name for port in self.ports):
            self._report("bad-input", f"two inputs are called `{name}`", "rename a field of one NamedTuple", source)
        origin = Origin(None, len(self.ports))
        self.ports.append(PortSpec(name, type))
        symbol = Symbol(SymbolView(self._trace, origin, type, label, source, type.optional, self._trace.root))
        self._trace.inputs.append(symbol)
        return symbol

    def _parameter(self, name: str, type: ValueType, default: Any, source: Source) -> None:
        """A plain annotation declares a parameter, as it does for a role's method."""
        label = f"parameter `{name}`"
        if default is inspect.Parameter.empty:
            self._report(
                "bad-input",
                f"{label} of the flow ({type}) has no default",
                f"write `{name}: {type} = ...`, which a job may override; to let every job bring it, declare it as "
                "Text or a @record",
                source,
            )
            return
        try:
            if default is not None or not type.optional:
                encode(default, type, field=name)
        except InvalidArgument as error:
            self._report("bad-input", f"the default of {label} {error.message}", error.cure, source)
            return
        symbol = ParameterSymbol(SymbolView(self._trace, None, type, label, source, False, self._trace.root))
        self._trace.parameters[name] = (ParameterSpec(name, type, default), symbol)
        self.arguments[name] = symbol

    def _report(self, code: str, message: str, cure: str, source: Source) -> None:
        self._trace.problem(code, message, cure, source)
