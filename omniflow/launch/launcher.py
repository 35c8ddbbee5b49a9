"""What every way to run a cluster offers: local processes now, Ray and Kubernetes behind the same few methods."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from omniflow.config import ClusterConfig
from omniflow.launch.identity import ProcessIdentity


class Kind(StrEnum):
    """What a process is."""

    ETCD = "etcd"
    SCHEDULER = "scheduler"
    WORKER = "worker"


class ProcessState(StrEnum):
    """Where a process is in its life."""

    RUNNING = "running"
    WAITING = "waiting"
    """It died and starts again after a pause."""
    LEFT = "left"
    """A worker that was drained: it ended by itself and stays away."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of the cluster."""

    name: str
    kind: Kind
    state: ProcessState
    log: Path
    process: ProcessIdentity | None = None
    restarts: int = 0
    last_exit: str = ""
    """How it ended the last time, e.g. "killed by SIGKILL"."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster that was started: where it is and what belongs to it."""

    cluster: str
    run: Path
    address: str
    """Where clients reach the scheduler, host:port; of two schedulers both, with a comma between them."""
    etcd: tuple[str, ...]
    supervisor: ProcessIdentity
    ready: bool = False
    sockets: Path | None = None
    processes: tuple[ProcessStatus, ...] = field(default_factory=tuple)


class Observer(Protocol):
    """Hears how a start or a stop gets on."""

    def progress(self, text: str) -> None:
        """One step, for people."""


class Silent:
    """Hears and says nothing."""

    def progress(self, text: str) -> None:
        """Says nothing."""


class Launcher(Protocol):
    """Starts, looks after and ends the processes of one cluster."""

    def start(self, config: ClusterConfig, observer: Observer) -> ClusterState:
        """Returns once every process is ready, and leaves the cluster running.

        Raises `LaunchError`, and `RequestError` for a flow of the file that is wrong.
        """

    def run(self, config: ClusterConfig, observer: Observer) -> None:
        """The same, but stays until it is told to end."""

    def stop(self, run: Path, *, timeout_s: float, force: bool, observer: Observer) -> bool:
        """Drains and ends the cluster; False when none was there. Raises `StopTimeout`."""

    def status(self, run: Path) -> ClusterState:
        """What belongs to the cluster. Raises `NoCluster`."""
