"""A job's trace, before it takes the form of any tool. Times are microseconds since the job's arrival."""

from dataclasses import dataclass, field
from typing import Literal

State = Literal["queued", "running", "done", "failed", "lost", "stopped", "cut off"]


@dataclass(frozen=True, slots=True)
class PortTraffic:
    """What went over one port of an attempt. `sampled`: the times of some of its frames, evenly chosen by number."""

    port: str
    frames: int
    bytes: int
    first: int
    last: int
    sampled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at an activation whose inputs were there. `queued <= started <= first_frame <= ended`.

    None: it never got so far. `ended` of one that still runs is the moment of the question. "stopped":
    nobody needed more of it, as when its loop was over. "cut off": the job ended before it said how it ended.
    """

    node: str
    key: tuple[int, ...]
    worker: str
    number: int
    state: State
    queued: int
    started: int | None
    first_frame: int | None
    ended: int
    features: dict[str, float] = field(default_factory=dict)
    outputs: tuple[PortTraffic, ...] = ()
    inputs: tuple[PortTraffic, ...] = ()

    @property
    def label(self) -> str:
        """The node, which key of it, and which try when it isn't the first."""
        key = f"[{','.join(map(str, self.key))}]" if self.key else ""
        return f"{self.node}{key}" + (f" (attempt {self.number})" if self.number > 1 else "")

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "running")

    def output(self, port: str) -> PortTraffic | None:
        return next((traffic for traffic in self.outputs if traffic.port == port), None)

    def input(self, port: str) -> PortTraffic | None:
        return next((traffic for traffic in self.inputs if traffic.port == port), None)


@dataclass(frozen=True, slots=True)
class Arrow:
    """What one attempt made and another one read. `source` and `target` are indices into `JobTrace.attempts`."""

    source: int
    target: int
    output: str
    input: str


@dataclass(frozen=True, slots=True)
class JobTrace:
    """`arrived_ns`: of the job, in nanoseconds since 1970. `first_frame`: the first one of a result.

    `results`: by result, the node and output that make it, where a role does. `error`: its code and its message.
    """

    job: str
    flow: str
    flow_version: str
    tenant: str
    state: str
    over: bool
    arrived_ns: int
    ended: int
    first_frame: int | None
    attempts: tuple[Attempt, ...]
    arrows: tuple[Arrow, ...] = ()
    results: dict[str, tuple[str, str]] = field(default_factory=dict)
    error: tuple[str, str] | None = None
