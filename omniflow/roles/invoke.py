"""Running one activation of a plain role: inputs in, the method, outputs out."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from contextvars import ContextVar
from typing import Any

from omniflow.errors import BadOutput, Cancelled
from omniflow.roles.activation import Activation
from omniflow.roles.adapter import TypedActivation
from omniflow.roles.description import MethodSpec, PortSpec
from omniflow.roles.role import Role

_CURRENT: ContextVar[Activation | None] = ContextVar("omniflow_activation", default=None)
_ROOM_SECONDS = 1.0
# Frames of a generator that come this fast leave together, so many at most.
_QUICK = 0.0002
_TOGETHER = 32


def current() -> Activation:
    """The activation that runs on this thread: its seed, `cancelled`, `features`. Raises `LookupError` elsewhere."""
    activation = _CURRENT.get()
    if activation is None:
        raise LookupError("no activation runs here: call current() inside a role's method")
    return activation


def invoke(role: Role, activation: TypedActivation, *, more: bool = False) -> None:
    """Calls the method, sends what it returns or yields, then finishes. Whatever it raises fails the activation.

    `more`: another activation is invoked on this thread right behind it, and may take the results of this one along.
    """
    token = _CURRENT.set(activation)
    try:
        returned = getattr(role, activation.method)(**_arguments(activation))
        plain, streams = _outputs(activation.spec, returned)
        if streams:
            for port, value in plain:
                _push(activation, port, value)
            _drain(activation, streams)
            activation.finish(more=more)
        else:
            activation.finish(plain, more=more)
    except Exception as error:  # every failure of a role must end the activation, typed
        activation.fail(error)
    finally:
        _CURRENT.reset(token)


def _arguments(activation: TypedActivation) -> dict[str, Any]:
    spec = activation.spec
    arguments = dict(activation.parameters) if spec.parameters else {}
    for port in spec.inputs:
        if port.type.stream and port.name in activation.inputs:
            arguments[port.name] = activation.stream(port.name)
        else:
            arguments[port.name] = activation.value_of(port)
    for name, bundle in spec.bundles.items():
        start = f"{name}."
        parts = [port for port in arguments if port.startswith(start)]
        arguments[name] = bundle(**{port.removeprefix(start): arguments.pop(port) for port in parts})
    return arguments


def _outputs(
    spec: MethodSpec, returned: Any
) -> tuple[list[tuple[PortSpec, Any]], list[tuple[PortSpec, Iterator[Any]]]]:
    """What a method returned, by port: single values, and streams."""
    if spec.returns is None:
        values = [returned]
    elif isinstance(returned, spec.returns):
        values = [getattr(returned, port.name) for port in spec.outputs]
    else:
        raise BadOutput(
            f"`{spec.name}` returned {type(returned).__name__} instead of {spec.returns.__name__}",
            cure="return what the method declares",
        )
    plain: list[tuple[PortSpec, Any]] = []
    streams: list[tuple[PortSpec, Iterator[Any]]] = []
    for port, value in zip(spec.outputs, values, strict=True):
        if value is None and port.type.optional:
            continue
        if port.type.stream:
            streams.append((port, _iterator(port, value)))
        else:
            plain.append((port, value))
    return plain, streams


def _drain(activation: TypedActivation, streams: list[tuple[PortSpec, Iterator[Any]]]) -> None:
    with ExitStack() as stack:
        for _, iterator in streams:
            if isinstance(iterator, Generator):
                # A generator's own `finally` must run now when the job ends early, not at garbage collection.
                stack.enter_context(closing(iterator))
        if len(streams) == 1:
            _drain_one(activation, *streams[0])
        else:
            _drain_in_turn(activation, streams)


def _drain_one(activation: TypedActivation, port: PortSpec, iterator: Iterator[Any]) -> None:
    """The stream ends with the activation."""
    send = activation.sender(port)
    together, last = 0, time.perf_counter()
    for frame in iterator:
        now = time.perf_counter()
        # One that came quickly is likely to be followed as quickly, by one that takes it along.
        quick = now - last < _QUICK and together < _TOGETHER
        together, last = together + 1 if quick else 0, now
        while not send(frame, quick):
            activation.wait_for_room(_ROOM_SECONDS)


def _drain_in_turn(activation: TypedActivation, streams: list[tuple[PortSpec, Iterator[Any]]]) -> None:
    """Takes one frame of each stream in turn, so that no output waits for the end of another."""
    while streams:
        for entry in list(streams):
            port, iterator = entry
            if activation.cancelled:
                raise Cancelled("the job is over")
            try:
                frame = next(iterator)
            except StopIteration:
                activation.end(port.name)
                streams.remove(entry)
            else:
                _push(activation, port, frame)


def _iterator(port: PortSpec, value: Any) -> Iterator[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return iter(value)
    raise BadOutput(
        f"`{port.name}` is {port.type}, and the method returned {type(value).__name__}",
        field=port.name,
        cure="yield the frames, or return an iterator over them",
    )


def _push(activation: TypedActivation, port: PortSpec, frame: Any) -> None:
    """Sends one frame, asleep while its consumer has no room."""
    while not activation.emit_on(port, [frame]):
        activation.wait_for_room(_ROOM_SECONDS)
