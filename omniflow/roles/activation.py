"""What a role sees of one activation, and of its queue; and what it stands on: the same in bytes, from the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import Buffer

from omniflow.types import Stream
from omniflow.types.wire import Encoded

if TYPE_CHECKING:  # NumPy comes with the first array
    import numpy.typing as npt


class CoreActivation(Protocol):
    """`omniflow_core.Activation`."""

    @property
    def job(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def key(self) -> tuple[int, ...]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def job_over(self) -> bool: ...
    @property
    def remaining_ms(self) -> int: ...
    @property
    def resumed(self) -> Sequence[bytes]: ...
    @property
    def parameters(self) -> dict[str, bytes]: ...
    @property
    def inputs(self) -> list[tuple[str, str]]: ...
    @property
    def values(self) -> Mapping[str, bytes | Buffer]: ...
    def read(self, parameter: str, max_n: int, timeout: float) -> Sequence[bytes | Buffer] | None: ...
    def emit(self, port: str, frames: Sequence[Encoded], more: bool = False) -> int: ...
    def wait_for_room(self, timeout: float) -> bool: ...
    def draft(self, bytes: int) -> Buffer | None: ...
    def end(self, port: str) -> None: ...
    def finish(
        self, features: dict[str, float], last: Sequence[tuple[str, Encoded]] = (), more: bool = False
    ) -> None: ...
    def fail(self, error: bytes) -> None: ...


class CoreReady(Protocol):
    """`omniflow_core.Ready`."""

    def take(self, max_n: int, timeout: float) -> Sequence[CoreActivation]: ...
    def __len__(self) -> int: ...


class Activation(Protocol):
    """One run of a node in a job for one key, in typed values. Safe from any thread."""

    @property
    def job(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def key(self) -> tuple[int, ...]: ...
    @property
    def epoch(self) -> int:
        """Counts the attempts at this activation."""

    @property
    def resumed(self) -> tuple[bytes, ...]:
        """Of a resumable method: the states of the frames that readers have of earlier attempts, from the first one on.

        What it sends comes after them. Empty at a first attempt.
        """

    @property
    def seed(self) -> int:
        """The job's: what a deterministic method draws its random numbers from."""

    @property
    def tenant(self) -> str: ...
    @property
    def cancelled(self) -> bool:
        """The job was cancelled, has failed or is past its deadline: stop within one step."""

    @property
    def job_over(self) -> bool:
        """The worker has let go of the job, however it ended: also once this activation has finished. What was kept
        for the job's other nodes can go."""

    @property
    def remaining_ms(self) -> int:
        """To the job's deadline."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every parameter of the method: the job's, else the flow's constant, else the default."""

    @property
    def features(self) -> dict[str, float]:
        """Work features, e.g. `prompt_tokens`: put in what `finish` is to report."""

    @property
    def inputs(self) -> frozenset[str]:
        """The inputs that have something: those absent or closed are None."""

    def value(self, name: str) -> Any:
        """A plain input; the method's default (mostly None) when nothing came. Raises `InvalidArgument`."""

    def stream(self, name: str) -> Stream[Any]:
        """A stream input, to iterate: waits for frames. Raises `Cancelled` while waiting."""

    def read(self, name: str, max_n: int, timeout: float) -> list[Any] | None:
        """At least one next frame of a stream; [] after `timeout` seconds; None at its end. Raises `Cancelled`."""

    def empty(self, shape: Sequence[int], dtype: str) -> npt.NDArray[Any]:
        """An array to compute an output in; what is in it is left from before. `dtype`: NumPy's name.

        `Tensor.from_array` of all of it (or `from_torch` of `torch.from_numpy` of it) is sent to other workers of the
        host without a copy, the first time. Do not write to it after that.
        """

    def emit(self, frames: Sequence[Any], port: str | None = None) -> int:
        """Sends frames on `port` (the only output when None); returns how many were taken, and never blocks.

        Raises `Cancelled`, and `BadOutput` for a value that the method does not declare.
        """

    def end(self, port: str | None = None) -> None:
        """No more frames on this stream."""

    def finish(self) -> None:
        """Ends what is open and reports `features`. Raises `BadOutput` when a required output got nothing."""

    def finish_with(self, value: Any, port: str | None = None) -> None:
        """`finish`, with a last frame on `port` (the only output when None), which is taken whatever room there is."""

    def fail(self, error: BaseException) -> None:
        """Ends it in the typed error that `failure_of` makes of `error`."""


class ReadyQueue(Protocol):
    """Activations that can run now, the most urgent first."""

    def take(self, max_n: int, timeout: float) -> list[Activation]:
        """Up to `max_n`, as soon as there is one; [] after `timeout` seconds. Raises `QueueClosed` at the end."""

    def __len__(self) -> int: ...
