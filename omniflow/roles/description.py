"""What a role class offers: its methods, their ports and parameters, read from the signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any
from weakref import WeakKeyDictionary

from omniflow.errors import InvalidArgument
from omniflow.roles.method import MethodOptions, options_of
from omniflow.roles.role import Role
from omniflow.types import (
    BadAnnotation,
    Kind,
    ValueType,
    has_stream_field,
    is_record,
    resolve_hints,
    to_message,
    value_type,
)
from omniflow.v1 import cluster_pb2, flow_pb2

RESULT = "result"
"""The port of a method, or of a flow, that has only one."""

NO_DEFAULT: Any = inspect.Parameter.empty


_SPECS: WeakKeyDictionary[type[Role], RoleSpec] = WeakKeyDictionary()


class BadRole(InvalidArgument):
    """A role class whose methods don't say what travels. `field` is "Class.method"."""


@dataclass(frozen=True, slots=True)
class PortSpec:
    """An input or an output. `default` is an input's: what the method gets when nothing feeds it."""

    name: str
    type: ValueType
    default: Any = NO_DEFAULT

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT and not self.type.optional


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A constant that the flow, or a job, may set."""

    name: str
    type: ValueType
    default: Any = NO_DEFAULT

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One method. `outputs` has one port called `RESULT`, or those named by the fields of `returns`, a class.

    `bundles`: the classes of arguments that are NamedTuples; each of their fields is an input, `argument.field`.
    """

    name: str
    inputs: tuple[PortSpec, ...]
    outputs: tuple[PortSpec, ...]
    parameters: tuple[ParameterSpec, ...]
    signature: inspect.Signature
    returns: type[Any] | None
    options: MethodOptions
    doc: str = ""
    bundles: dict[str, type[Any]] = field(default_factory=dict)

    def input(self, name: str) -> PortSpec | None:
        return next((port for port in self.inputs if port.name == name), None)

    def output(self, name: str) -> PortSpec | None:
        return next((port for port in self.outputs if port.name == name), None)

    def parameter(self, name: str) -> ParameterSpec | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


@dataclass(frozen=True, slots=True)
class RoleSpec:
    name: str
    methods: dict[str, MethodSpec]
    concurrency: int
    doc: str = ""


def spec_of(role: type[Role]) -> RoleSpec:
    """Reads a role class. Raises `BadRole` naming the class, the method and the parameter that is wrong."""
    known = _SPECS.get(role)
    if known is None:
        known = _SPECS[role] = _read_role(role)
    return known


def _read_role(role: type[Role]) -> RoleSpec:
    methods: dict[str, MethodSpec] = {}
    for name in _published(role):
        function = inspect.unwrap(getattr(role, name))
        options = options_of(function)
        if options is None:
            raise BadRole(
                f"`{role.__name__}.{name}` overrides a method without being one",
                field=f"{role.__name__}.{name}",
                cure="decorate it with @method too",
            )
        methods[name] = _method(f"{role.__name__}.{name}", name, function, options)
    if not methods:
        raise BadRole(
            f"role `{role.__name__}` publishes no method", field=role.__name__, cure="decorate one with @method"
        )
    return RoleSpec(role.name, methods, role.concurrency, inspect.cleandoc(role.__doc__ or ""))


def describe(role: type[Role], name: str | None = None) -> cluster_pb2.RoleInfo:
    """What a worker registers for `role`, served under `name` (the class's own unless given). Raises `BadRole`."""
    spec = spec_of(role)
    return cluster_pb2.RoleInfo(
        name=name or spec.name,
        methods=[_describe_method(each) for each in spec.methods.values()],
        concurrency=spec.concurrency,
        doc=spec.doc,
    )


def output_ports(annotation: Any) -> tuple[tuple[PortSpec, ...], type[Any] | None]:
    """Ports of a return annotation, and the class that names them. Raises `BadAnnotation`."""
    ports = bundle_ports(annotation)
    if ports is not None:
        return ports, annotation
    return (PortSpec(RESULT, _travelling(value_type(annotation))),), None


def bundle_ports(annotation: Any) -> tuple[PortSpec, ...] | None:
    """One port per field of a bundle: a NamedTuple, or a record with a stream in it. None for anything else.

    Raises `BadAnnotation`.
    """
    if is_named_tuple(annotation):
        names = vars(annotation)["_fields"]
    elif is_record(annotation) and has_stream_field(annotation):
        names = [each.name for each in fields(annotation)]
    else:
        return None
    hints = resolve_hints(annotation)
    return tuple(PortSpec(name, _travelling(value_type(hints[name]))) for name in names)


def is_bundle(value: object) -> bool:
    """Whether a value is an instance of a bundle."""
    return is_named_tuple(type(value)) or (is_record(type(value)) and has_stream_field(type(value)))


def bundle_values(bundle: Any) -> dict[str, Any]:
    """The fields of a bundle by name."""
    names = getattr(type(bundle), "_fields", None) or [each.name for each in fields(bundle)]
    return {name: getattr(bundle, name) for name in names}


def _travelling(type: ValueType) -> ValueType:
    """A bool that a bundle holds travels, e.g. to say that a loop is over; elsewhere a bool is a parameter."""
    return replace(type, plain=False) if type.kind is Kind.BOOLEAN else type


def is_named_tuple(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, tuple) and "_fields" in vars(annotation)


def _published(role: type[Role]) -> list[str]:
    """Names that any class of the line publishes, in order of definition."""
    names: dict[str, None] = {}
    for owner in reversed(role.__mro__):
        for name, member in vars(owner).items():
            if inspect.isfunction(member) and options_of(inspect.unwrap(member)) is not None:
                names[name] = None
    return list(names)


def _method(place: str, name: str, function: Callable[..., Any], options: MethodOptions) -> MethodSpec:
    signature = inspect.signature(function)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise BadRole(
            f"`{place}` is async", field=place, cure="write a plain function, or a generator: it has a thread"
        )
    try:
        hints = resolve_hints(function)
    except BadAnnotation as error:
        raise _bad_role(place, error) from error
    inputs: list[PortSpec] = []
    parameters: list[ParameterSpec] = []
    bundles: dict[str, type[Any]] = {}
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadRole(f"`{place}` takes `*{parameter.name}`", field=place, cure="name every input and parameter")
        bundle = _bundle(place, parameter, hints)
        if bundle is not None:
            bundles[parameter.name] = hints[parameter.name]
            inputs += bundle
            continue
        parsed = _parsed(place, parameter.name, hints)
        if parsed.plain:
            parameters.append(ParameterSpec(parameter.name, parsed, parameter.default))
        else:
            inputs.append(PortSpec(parameter.name, parsed, parameter.default))
    if "return" not in hints:
        raise BadRole(f"`{place}` does not say what it returns", field=place, cure="annotate it, e.g. `-> Text`")
    try:
        outputs, returns = output_ports(hints["return"])
    except BadAnnotation as error:
        raise _bad_role(f"{place}, what it returns", error) from error
    for port in outputs:
        if port.type.plain:
            raise BadRole(
                f"`{place}` returns {port.type}, which is for parameters",
                field=place,
                cure="return Text for words, or a @record or NamedTuple of media",
            )
    if options.resumable and not (len(outputs) == 1 and outputs[0].type.stream):
        raise BadRole(
            f"`{place}` is resumable, and its output is no stream or not its only one",
            field=place,
            cure="return one Stream[...], or leave `resumable` out",
        )
    doc = inspect.getdoc(function) or ""
    return MethodSpec(name, tuple(inputs), outputs, tuple(parameters), signature, returns, options, doc, bundles)


def _bundle(place: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> list[PortSpec] | None:
    """The ports of an argument that is a bundle; None when it is none."""
    name = parameter.name
    try:
        ports = bundle_ports(hints.get(name))
    except BadAnnotation as error:
        raise _bad_role(f"{place}, `{name}`", error) from error
    if ports is None:
        return None
    if parameter.default is not parameter.empty:
        raise BadRole(
            f"`{name}` of `{place}` has a default, and {hints[name].__name__} is one port per field",
            field=place,
            cure=f"declare the fields of {hints[name].__name__} that may be missing `T | None`",
        )
    wrong = next((port for port in ports if port.type.plain), None)
    if wrong is not None:
        raise BadRole(
            f"`{name}.{wrong.name}` of `{place}` is {wrong.type}, which is for parameters",
            field=place,
            cure="write Text for words, or a @record that holds the numbers",
        )
    return [replace(port, name=f"{name}.{port.name}") for port in ports]


def _parsed(place: str, name: str, hints: dict[str, Any]) -> ValueType:
    if name not in hints:
        raise BadRole(
            f"`{name}` of `{place}` has no annotation",
            field=place,
            cure="annotate it: Text, Image, … for an input, str, int, … for a parameter",
        )
    try:
        return value_type(hints[name])
    except BadAnnotation as error:
        raise _bad_role(f"{place}, `{name}`", error) from error


def _bad_role(place: str, error: BadAnnotation) -> BadRole:
    return BadRole(f"{place}: {error.message}", field=place.partition(",")[0], cure=error.cure)


def _describe_method(spec: MethodSpec) -> cluster_pb2.MethodInfo:
    return cluster_pb2.MethodInfo(
        name=spec.name,
        inputs=[flow_pb2.Port(name=port.name, type=port.type.to_proto(), parameter=port.name) for port in spec.inputs],
        outputs=[flow_pb2.Port(name=port.name, type=port.type.to_proto()) for port in spec.outputs],
        parameters=[_describe_parameter(each) for each in spec.parameters],
        deterministic=spec.options.deterministic,
        doc=spec.doc,
    )


def _describe_parameter(spec: ParameterSpec) -> cluster_pb2.Parameter:
    default = None if spec.default is NO_DEFAULT or spec.default is None else to_message(spec.default, spec.type)
    return cluster_pb2.Parameter(name=spec.name, type=spec.type.to_proto(), default=default)
