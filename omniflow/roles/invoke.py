"""Running one activation of a plain role: inputs in, the method, outputs out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from contextvars import ContextVar
from typing import Any

from omniflow.errors import BadOutput, Cancelled
from omniflow.roles.activation import Activation
from omniflow.roles.adapter import TypedActivation
from omniflow.roles.description import PortSpec
from omniflow.roles.role import Role

_CURRENT: ContextVar[Activation | None] = ContextVar("omniflow_activation", default=None)
_ROOM_SECONDS = 1.0


def current() -> Activation:
    """The activation that runs on this thread: its seed, `cancelled`, `features`. Raises `LookupError` elsewhere."""
    activation = _CURRENT.get()
    if activation is None:
        raise LookupError("no activation runs here: call current() inside a role's method")
    return activation


def invoke(role: Role, activation: TypedActivation) -> None:
    """Calls the method, sends what it returns or yields, then finishes. Whatever it raises fails the activation."""
    token = _CURRENT.set(activation)
    try:
        _send(activation, getattr(role, activation.method)(**_arguments(activation)))
        activation.finish()
    except Exception as error:  # every failure of a role must end the activation, typed
        activation.fail(error)
    finally:
        _CURRENT.reset(token)


def _arguments(activation: TypedActivation) -> dict[str, Any]:
    arguments = dict(activation.parameters)
    for port in activation.spec.inputs:
        if port.type.stream and port.name in activation.inputs:
            arguments[port.name] = activation.stream(port.name)
        else:
            arguments[port.name] = activation.value(port.name)
    for name, bundle in activation.spec.bundles.items():
        start = f"{name}."
        parts = [port for port in arguments if port.startswith(start)]
        arguments[name] = bundle(**{port.removeprefix(start): arguments.pop(port) for port in parts})
    return arguments


def _send(activation: TypedActivation, returned: Any) -> None:
    spec = activation.spec
    if spec.returns is None:
        values = [returned]
    elif isinstance(returned, spec.returns):
        values = [getattr(returned, port.name) for port in spec.outputs]
    else:
        raise BadOutput(
            f"`{spec.name}` returned {type(returned).__name__} instead of {spec.returns.__name__}",
            cure="return what the method declares",
        )
    streams: list[tuple[PortSpec, Iterator[Any]]] = []
    for port, value in zip(spec.outputs, values, strict=True):
        if value is None and port.type.optional:
            continue
        if port.type.stream:
            streams.append((port, _iterator(port, value)))
        else:
            _push(activation, port, value)
    _drain(activation, streams)


def _drain(activation: TypedActivation, streams: list[tuple[PortSpec, Iterator[Any]]]) -> None:
    """Takes one frame of each stream in turn, so that no output waits for the end of another."""
    with ExitStack() as stack:
        for _, iterator in streams:
            if isinstance(iterator, Generator):
                # A generator's own `finally` must run now when the job ends early, not at garbage collection.
                stack.enter_context(closing(iterator))
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
    while not activation.emit([frame], port.name):
        activation.wait_for_room(_ROOM_SECONDS)
