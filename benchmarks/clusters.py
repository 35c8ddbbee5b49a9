"""A cluster for as long as a benchmark needs it."""

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omniflow.config import load_cluster
from omniflow.launch import ClusterState, LocalLauncher, Silent

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class RunningCluster:
    """Where it is, and how long it took to be ready."""

    state: ClusterState
    ready_seconds: float


@contextmanager
def running(file: str, **changes: object) -> Iterator[RunningCluster]:
    """Starts the cluster of `file` (relative to the repository) on free ports with a run folder of its own.

    `changes`: keys of the cluster file that shall be otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="omniflow-bench-") as folder:
        config = load_cluster(ROOT / file)
        config = config.model_copy(
            update={
                "run": Path(folder),
                "scheduler": config.scheduler.model_copy(update={"listen": f"127.0.0.1:{_free_port()}"}),
                **changes,
            }
        )
        launcher = LocalLauncher()
        started = time.monotonic()
        state = launcher.start(config, Silent())
        try:
            yield RunningCluster(state, time.monotonic() - started)
        finally:
            launcher.stop(state.run, timeout_s=60.0, force=True, observer=Silent())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
