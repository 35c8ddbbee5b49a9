"""What a flow takes and answers, so that values are checked here and results have their types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from omniflow.errors import InvalidArgument
from omniflow.types import ValueType, encode
from omniflow.types.limits import MAX_INPUT_BYTES
from omniflow.v1.flow_pb2 import Flow, Port
from omniflow.v1.job_pb2 import Input
from omniflow.v1.value_pb2 import Value


@runtime_checkable
class Compilable(Protocol):
    """A `@flow` function."""

    name: str

    def to_proto(self) -> Flow: ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the flow itself: setting it sets `targets`, each "node.parameter"."""

    type: ValueType
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """One version of a flow, from outside."""

    name: str
    version: bytes
    inputs: Mapping[str, ValueType]
    results: tuple[tuple[str, ValueType], ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @classmethod
    def of(cls, flow: Flow) -> "Signature":
        return cls(
            flow.name,
            flow.version,
            {port.name: ValueType.from_proto(port.type) for port in flow.inputs},
            tuple(_result(port) for port in flow.results),
            {each.name: Parameter(ValueType.from_proto(each.type), tuple(each.targets)) for each in flow.parameters},
        )

    def encode(self, inputs: Mapping[str, Any]) -> list[Input]:
        """The job's inputs on the wire. Raises `InvalidArgument` naming the input. None leaves an input out."""
        unknown = [name for name in inputs if name not in self.inputs]
        if unknown:
            raise InvalidArgument(
                f"flow {self.name!r} has no input {unknown[0]!r}",
                field=unknown[0],
                cure=f"its inputs are: {', '.join(f'{name}: {kind}' for name, kind in self.inputs.items()) or 'none'}",
            )
        return [
            Input(name=name, frames=_frames(value, self.inputs[name], name))
            for name, value in inputs.items()
            if value is not None
        ]


def encode_parameters(parameters: Mapping[str, Any], signature: Signature) -> dict[str, Value]:
    """By "node.parameter"; what the flow itself names stands for each of its targets, where none is given by itself.

    Raises `InvalidArgument` naming the parameter, also one without a dot that the flow does not have.
    """
    own = signature.parameters
    encoded: dict[str, Value] = {}
    for name, value in parameters.items():
        if name in own:
            made = Value.FromString(encode(value, own[name].type, field=name))
            encoded.update({target: made for target in own[name].targets if target not in parameters})
        elif "." not in name:
            raise InvalidArgument(
                f"flow {signature.name!r} has no parameter {name!r}",
                field=name,
                cure=f'its parameters: {", ".join(own) or "none"}; a node\'s: "node.parameter"',
            )
        else:
            encoded[name] = Value.FromString(encode(value, field=name))
    return encoded


def _frames(value: Any, kind: ValueType, name: str) -> list[bytes]:
    if not kind.stream:
        return [encode(value, kind, field=name, limit=MAX_INPUT_BYTES)]
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidArgument(f"wants {kind}, got {type(value).__name__}", field=name, cure="pass a list of frames")
    item = kind.frame()
    return [encode(each, item, field=f"{name}[{index}]", limit=MAX_INPUT_BYTES) for index, each in enumerate(value)]


def _result(port: Port) -> tuple[str, ValueType]:
    return port.name, ValueType.from_proto(port.type)
