"""From the core's bytes to typed values: the one place where a role's frames are decoded and encoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer

import omniflow_core as core
from omniflow.errors import BadOutput, Cancelled, InternalError, InvalidArgument, TooLarge
from omniflow.roles.activation import Activation, CoreActivation, CoreReady
from omniflow.roles.description import NO_DEFAULT, MethodSpec, PortSpec, RoleSpec
from omniflow.roles.failure import InvalidInput, QueueClosed, failure_of
from omniflow.roles.frame import StatefulFrame, state_bytes, states_of
from omniflow.types import Stream, ValueType
from omniflow.types.big import decode_payload, encode_parts
from omniflow.types.codec import decode_texts, short_text
from omniflow.types.value_type import Kind
from omniflow.types.wire import Encoded

if TYPE_CHECKING:  # NumPy comes with the first array
    import numpy.typing as npt

_READ_FRAMES = 64
_READ_SECONDS = 1.0


class TypedActivation:
    """`Activation` over the core's."""

    def __init__(self, inner: CoreActivation, spec: MethodSpec) -> None:
        self._core = inner
        self.spec = spec
        self.features: dict[str, float] = {}
        self._values = inner.values
        # Most activations never ask for these.
        self._known_constants: dict[str, bytes] | None = None
        self._known_states: dict[str, str] | None = None
        self._known_parameters: dict[str, Any] | None = None

    @property
    def job(self) -> str:
        return self._core.job

    @property
    def node(self) -> str:
        return self._core.node

    @property
    def method(self) -> str:
        return self.spec.name

    @property
    def key(self) -> tuple[int, ...]:
        return self._core.key

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def seed(self) -> int:
        return self._core.seed

    @property
    def tenant(self) -> str:
        return self._core.tenant

    @property
    def cancelled(self) -> bool:
        return self._core.cancelled

    @property
    def job_over(self) -> bool:
        return self._core.job_over

    @property
    def remaining_ms(self) -> int:
        return self._core.remaining_ms

    @cached_property
    def resumed(self) -> tuple[bytes, ...]:
        return states_of(self._core.resumed)

    @property
    def parameters(self) -> Mapping[str, Any]:
        if self._known_parameters is None:
            self._known_parameters = {
                each.name: self._parameter(each.name, each.type, each.default) for each in self.spec.parameters
            }
        return self._known_parameters

    @property
    def inputs(self) -> frozenset[str]:
        present = {name for name, state in self._states.items() if state != "none"}
        return frozenset(present | {port.name for port in self.spec.inputs if port.name in self._constants})

    @property
    def _constants(self) -> dict[str, bytes]:
        if self._known_constants is None:
            self._known_constants = self._core.parameters
        return self._known_constants

    @property
    def _states(self) -> dict[str, str]:
        if self._known_states is None:
            self._known_states = dict(self._core.inputs)
        return self._known_states

    def value(self, name: str) -> Any:
        return self.value_of(self._input(name))

    def value_of(self, port: PortSpec) -> Any:
        """`value`, by the port itself."""
        payload = self._values.get(port.name)
        if payload is None:
            payload = self._constants.get(port.name)
        if payload is None:
            return None if port.default is NO_DEFAULT else port.default
        return _decoded(payload, port.type, port.name)

    def stream(self, name: str) -> Stream[Any]:
        while (frames := self.read(name, _READ_FRAMES, _READ_SECONDS)) is not None:
            yield from frames

    def read(self, name: str, max_n: int, timeout: float) -> list[Any] | None:
        port = self._input(name)
        if self._states.get(name) != "stream":
            return None  # nothing feeds it, or what did was closed
        try:
            payloads = self._core.read(name, max_n, timeout)
        except core.CoreError as error:
            raise _translated(error) from error
        if payloads is None:
            return None
        try:
            return _all_decoded(payloads, port.type, name)
        except InvalidArgument as error:
            error.field = error.field or name
            raise

    def empty(self, shape: Sequence[int], dtype: str) -> npt.NDArray[Any]:
        import numpy as np

        kind = np.dtype(dtype)
        draft = self._core.draft(math.prod(shape) * kind.itemsize)
        return np.empty(shape, kind) if draft is None else np.frombuffer(memoryview(draft), kind).reshape(shape)

    def emit(self, frames: Sequence[Any], port: str | None = None) -> int:
        return self.emit_on(self._output(port), frames)

    def emit_on(self, port: PortSpec, frames: Sequence[Any], *, more: bool = False) -> int:
        """`emit`, by the port itself. `more`: this thread sends again at once; until then these may wait a moment."""
        payloads = [self._encoded(port, frame) for frame in frames]
        try:
            return self._core.emit(port.name, payloads, more)
        except core.CoreError as error:
            raise _translated(error) from error

    def sender(self, port: PortSpec) -> Callable[[Any, bool], bool]:
        """`emit_on` for the frames of a generator, which come one by one and are many: sends one, with its `more`, and
        says whether it was taken."""
        emit, name, text = self._core.emit, port.name, port.type.kind is Kind.TEXT

        def send(frame: Any, more: bool) -> bool:
            payload: Encoded | None = short_text(frame) if text and frame.__class__ is str else None
            if payload is None:
                payload = self._encoded(port, frame)
            try:
                # What is big comes not so quickly that it should wait for the next one.
                return emit(name, [payload], more and isinstance(payload, bytes)) == 1
            except core.CoreError as error:
                raise _translated(error) from error

        return send

    def wait_for_room(self, timeout: float) -> bool:
        """Sleeps until there is room for what `emit` did not take; False after `timeout` s. Raises `Cancelled`."""
        try:
            return self._core.wait_for_room(timeout)
        except core.CoreError as error:
            raise _translated(error) from error

    def end(self, port: str | None = None) -> None:
        try:
            self._core.end(self._output(port).name)
        except core.CoreError as error:
            raise _translated(error) from error

    def finish(self, last: Sequence[tuple[PortSpec, Any]] = (), *, more: bool = False) -> None:
        """With a last frame for each of these ports. `more` is that of `emit_on`."""
        payloads = [(port.name, self._encoded(port, frame)) for port, frame in last]
        try:
            self._core.finish(self.features, payloads, more)
        except core.CoreError as error:
            raise _translated(error) from error

    def finish_with(self, value: Any, port: str | None = None) -> None:
        self.finish([(self._output(port), value)])

    def fail(self, error: BaseException) -> None:
        names = {port.name for port in self.spec.inputs} | {each.name for each in self.spec.parameters}
        self._core.fail(failure_of(error, names).to_proto().SerializeToString())

    def _encoded(self, port: PortSpec, frame: Any) -> Encoded:
        try:
            return self._payload(frame, port)
        except TooLarge as error:
            raise BadOutput(
                f"`{self.method}` sends too much at once on `{port.name}`: {error.message}",
                field=port.name,
                cure="yield it in parts",
            ) from error
        except InvalidArgument as error:
            raise BadOutput(
                f"`{self.method}` declares {port.type} on `{port.name}`: {error.message}",
                field=port.name,
                cause=error.cause,
                cure="yield what the method declares, or correct its annotation",
            ) from error

    def _payload(self, frame: Any, port: PortSpec) -> Encoded:
        if frame.__class__ is not StatefulFrame:
            return encode_parts(frame, port.type, field=port.name)
        if not self.spec.options.resumable:
            raise BadOutput(
                f"`{self.method}` is not resumable, and sends a frame with state on `{port.name}`",
                field=port.name,
                cure="decorate it with @method(resumable=True), or send the value alone",
            )
        payload, state = encode_parts(frame.value, port.type, field=port.name), state_bytes(frame.state)
        return payload + state if isinstance(payload, bytes) else [*payload, state]

    def _parameter(self, name: str, type: ValueType, default: Any) -> Any:
        payload = self._constants.get(name)
        if payload is not None:
            return _decoded(payload, type, name)
        if default is NO_DEFAULT:
            raise InvalidInput(
                name, f"the parameter `{name}` is not set", cure=f"set it in the flow, or {self.node}.{name}"
            )
        return default

    def _input(self, name: str) -> PortSpec:
        port = self.spec.input(name)
        if port is None:
            known = ", ".join(each.name for each in self.spec.inputs)
            raise InternalError(f"`{self.method}` has no input `{name}`", cure=f"its inputs: {known}")
        return port

    def _output(self, name: str | None) -> PortSpec:
        if name is None and len(self.spec.outputs) == 1:
            return self.spec.outputs[0]
        port = self.spec.output(name or "")
        if port is None:
            known = ", ".join(each.name for each in self.spec.outputs)
            raise BadOutput(f"`{self.method}` has no output `{name}`", field=name or "", cure=f"its outputs: {known}")
        return port


class TypedQueue:
    """`ReadyQueue` over the core's, for the role that `spec` describes."""

    def __init__(self, inner: CoreReady, spec: RoleSpec) -> None:
        self._core = inner
        self._spec = spec

    def take(self, max_n: int, timeout: float) -> list[Activation]:
        try:
            taken = self._core.take(max_n, timeout)
        except core.CoreError as error:
            raise _translated(error) from error
        activations: list[Activation] = []
        for each in taken:
            spec = self._spec.methods.get(each.method)
            if spec is None:
                known = ", ".join(self._spec.methods)
                unknown = InternalError(
                    f"role `{self._spec.name}` has no method `{each.method}`", cure=f"it has: {known}"
                )
                each.fail(unknown.to_proto().SerializeToString())
            else:
                activations.append(TypedActivation(each, spec))
        return activations

    def __len__(self) -> int:
        return len(self._core)


def _decoded(payload: bytes | Buffer, type: ValueType, name: str) -> Any:
    try:
        return decode_payload(payload, type, field=name)
    except InvalidArgument as error:
        error.field = error.field or name
        raise


def _all_decoded(payloads: Sequence[bytes | Buffer], type: ValueType, name: str) -> list[Any]:
    if type.kind is Kind.TEXT:
        return decode_texts([each if isinstance(each, bytes) else bytes(each) for each in payloads], type, field=name)
    return [decode_payload(each, type, field=name) for each in payloads]


def _translated(error: core.CoreError) -> Exception:
    """Our error for one of the core's; those that are nobody's fault here stay as they are."""
    match error:
        case core.Cancelled():
            return Cancelled(str(error) or "the job is over")
        case core.Closed():
            return QueueClosed(str(error))
        case core.BadOutput() | core.UnknownPort():
            return BadOutput(str(error), cure="emit what the method declares, once on a port that is no stream")
    return error
