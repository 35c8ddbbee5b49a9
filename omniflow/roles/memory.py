"""Roles without a cluster: activations and a ready queue in memory, for trying a role and for its tests.

They stand where the core's do, so values pass through the same codec and adapter as in a worker.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any

import omniflow_core as core
from omniflow.errors import InvalidArgument, OmniFlowError, from_proto
from omniflow.roles.adapter import TypedActivation, TypedQueue
from omniflow.roles.description import MethodSpec, RoleSpec, bundle_values, spec_of
from omniflow.roles.invoke import invoke
from omniflow.roles.role import Role
from omniflow.types import decode, encode
from omniflow.types.wire import Encoded, joined
from omniflow.v1 import error_pb2


class MemoryActivation:
    """One activation. `arguments`: inputs and parameters by name; the frames of a stream as an iterable.

    A required stream left out stays open until `feed` and `end_input` have filled it. `after`: an earlier attempt at a
    resumable method, of which `delivered` frames had come when it was lost: this one goes on after them. Afterwards
    `results` and `error` tell what came of it. Raises `InvalidArgument` for a name or value that the method doesn't
    declare.
    """

    role = "memory"
    tenant = ""
    epoch = 1
    key: tuple[int, ...] = ()

    def __init__(
        self,
        spec: MethodSpec,
        arguments: dict[str, Any],
        *,
        seed: int = 0,
        deadline_seconds: float = 600.0,
        after: MemoryActivation | None = None,
        delivered: int = 0,
    ) -> None:
        self.spec = spec
        self.job, self.node, self.method, self.seed = "job-1", f"memory.{spec.name}", spec.name, seed
        self.parameters: dict[str, bytes] = {}
        self.features: dict[str, float] = {}
        sent = [*after.resumed, *after._sent[spec.outputs[0].name]] if after is not None else []
        self.resumed: list[bytes] = sent[:delivered]
        self._deadline = time.monotonic() + deadline_seconds
        self._values: dict[str, bytes] = {}
        self._streams: dict[str, deque[bytes]] = {port.name: deque() for port in spec.inputs if port.type.stream}
        self._ended: set[str] = set()
        self._absent: set[str] = set()
        self._sent: dict[str, list[bytes]] = defaultdict(list)
        self._error: OmniFlowError | None = None
        self._over = threading.Event()
        self._cancelled = False
        self._changed = threading.Condition()
        self._fill(arguments)

    def _fill(self, arguments: dict[str, Any]) -> None:
        for bundle in self.spec.bundles.keys() & arguments.keys():
            values = bundle_values(arguments.pop(bundle))
            arguments.update({f"{bundle}.{name}": value for name, value in values.items()})
        for name, value in arguments.items():
            port, parameter = self.spec.input(name), self.spec.parameter(name)
            if parameter is not None:
                self.parameters[name] = encode(value, parameter.type, field=name)
            elif port is None:
                raise InvalidArgument(f"`{self.method}` has no `{name}`", field=name, cure="see the method's signature")
            elif value is None:
                self._absent.add(name)
            elif port.type.stream:
                self.feed(name, value)
                self.end_input(name)
            else:
                self._values[name] = encode(value, port.type, field=name)
        for port in self.spec.inputs:
            if port.name not in arguments and not (port.type.stream and port.required):
                if port.required:
                    raise InvalidArgument(f"`{self.method}` lacks `{port.name}`", field=port.name, cure="pass it")
                self._absent.add(port.name)

    def feed(self, name: str, frames: Iterable[Any]) -> None:
        """Adds frames to a stream input."""
        port = self.spec.input(name)
        payloads = [encode(frame, port.type if port else None, field=name) for frame in frames]
        with self._changed:
            self._streams[name].extend(payloads)
            self._changed.notify_all()

    def end_input(self, name: str) -> None:
        """No more frames on a stream input."""
        with self._changed:
            self._ended.add(name)
            self._changed.notify_all()

    def cancel(self) -> None:
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Whether it was finished or failed within `timeout` seconds."""
        return self._over.wait(timeout)

    def results(self, port: str | None = None) -> list[Any]:
        """Frames sent so far on `port`, the only output when None."""
        spec = self.spec.outputs[0] if port is None else self.spec.output(port)
        return [decode(payload, spec.type if spec else None) for payload in self._sent[spec.name if spec else ""]]

    @property
    def error(self) -> OmniFlowError | None:
        return self._error

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @property
    def job_over(self) -> bool:
        return self._cancelled

    @property
    def remaining_ms(self) -> int:
        return max(0, round(1000 * (self._deadline - time.monotonic())))

    @property
    def inputs(self) -> list[tuple[str, str]]:
        states = []
        for port in self.spec.inputs:
            state = "none" if port.name in self._absent else "stream" if port.type.stream else "value"
            states.append((port.name, state))
        return states

    @property
    def values(self) -> dict[str, bytes]:
        return self._values

    def read(self, parameter: str, max_n: int, timeout: float) -> list[bytes] | None:
        frames = self._streams[parameter]
        with self._changed:
            self._changed.wait_for(lambda: frames or parameter in self._ended or self._cancelled, timeout)
            if self._cancelled:
                raise core.Cancelled("the job was cancelled")
            if not frames:
                return None if parameter in self._ended else []
            return [frames.popleft() for _ in range(min(max_n, len(frames)))]

    def emit(self, port: str, frames: Sequence[Encoded], more: bool = False) -> int:
        if self._cancelled:
            raise core.Cancelled("the job was cancelled")
        self._sent[port] += map(joined, frames)
        return len(frames)

    def wait_for_room(self, timeout: float) -> bool:
        """There is always room here."""
        if self._cancelled:
            raise core.Cancelled("the job was cancelled")
        return True

    def draft(self, bytes: int) -> None:
        """There is no shared memory here."""

    def end(self, port: str) -> None:
        """Outputs end with the activation here."""

    def finish(self, features: dict[str, float], last: Sequence[tuple[str, Encoded]] = (), more: bool = False) -> None:
        for port, frame in last:
            self.emit(port, [frame])
        self.features = dict(features)
        self._over.set()

    def fail(self, error: bytes) -> None:
        self._error = from_proto(error_pb2.Error.FromString(error))
        self._over.set()


class MemoryQueue:
    """The ready queue of one role class. `typed` is what `EngineRole.serve` takes."""

    def __init__(self, role: type[Role]) -> None:
        self.spec: RoleSpec = spec_of(role)
        self.typed = TypedQueue(self, self.spec)
        self._waiting: deque[MemoryActivation] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def put(
        self, method: str, *, seed: int = 0, after: MemoryActivation | None = None, delivered: int = 0, **arguments: Any
    ) -> MemoryActivation:
        """Adds an activation of `method`; `after` and `delivered` are `MemoryActivation`'s."""
        activation = MemoryActivation(self.spec.methods[method], arguments, seed=seed, after=after, delivered=delivered)
        with self._changed:
            self._waiting.append(activation)
            self._changed.notify()
        return activation

    def close(self) -> None:
        """`take` raises once what waits has been taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, max_n: int, timeout: float) -> list[MemoryActivation]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            if not self._waiting and self._closed:
                raise core.Closed("the queue is closed")
            return [self._waiting.popleft() for _ in range(min(max_n, len(self._waiting)))]

    def __len__(self) -> int:
        return len(self._waiting)


def run_method(
    role: Role,
    method: str,
    *,
    seed: int = 0,
    after: MemoryActivation | None = None,
    delivered: int = 0,
    **arguments: Any,
) -> MemoryActivation:
    """Runs one activation of a plain role here and now; its `results` and `error` tell what came of it.

    `after` and `delivered` are `MemoryActivation`'s.
    """
    spec = spec_of(type(role)).methods[method]
    activation = MemoryActivation(spec, arguments, seed=seed, after=after, delivered=delivered)
    invoke(role, TypedActivation(activation, spec))
    return activation
