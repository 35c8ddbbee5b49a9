"""Starts a real cluster of puppets from a cluster file: etcd, scheduler and workers under the launcher's supervisor."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omniflow.client import Client
from omniflow.config import load_cluster
from omniflow.launch import (
    ClusterState,
    LocalLauncher,
    ProcessIdentity,
    ProcessState,
    ProcessStatus,
    Silent,
    read_state,
)
from omniflow.launch.identity import marked_with
from omniflow.v1.cluster_pb2 import ClusterStatus, WorkerStatus
from tests.cluster_fixtures.ports import free_port

PUPPET = "tests.cluster_fixtures.puppets:Puppet"
# Roles with a class of their own; every other name is a puppet's.
CLASSES = {
    "loner": "tests.cluster_fixtures.puppets:Loner",
    "unruly": "tests.cluster_fixtures.unruly:Unruly",
    "cramped": "tests.cluster_fixtures.unruly:Unruly",
    "homeless": "tests.cluster_fixtures.unruly:Unruly",
    "listener": "tests.cluster_fixtures.unruly:Listener",
    "maker": "tests.cluster_fixtures.heavy:Heavy",
    "reader": "tests.cluster_fixtures.heavy:Heavy",
    "keeper": "tests.cluster_fixtures.heavy:Heavy",
    "narrow": "tests.cluster_fixtures.heavy:Heavy",
}
FLOWS = Path(__file__).with_name("puppet_flows.py")
PATIENCE_S = 120.0
LOOK_EVERY_S = 0.02

# Short, so that a silent worker is dead within the second, and long enough for a busy machine.
LIMITS = {
    "heartbeat_s": 0.2,
    "heartbeat_limit_s": 1.5,
    "reconnect_s": 0.4,
    "client_grace_s": 1.0,
    "queue_limit": 24,
    "max_deadline_s": 25.0,
}


@dataclass(frozen=True)
class PuppetCluster:
    """A cluster that runs. Its processes are named as in the cluster file."""

    file: Path
    run: Path
    address: str
    stage: Path

    @property
    def state(self) -> ClusterState:
        state = read_state(self.run)
        assert state is not None, f"nothing runs on {self.run}"
        return state

    def status_of(self, name: str) -> ProcessStatus:
        return next(process for process in self.state.processes if process.name == name)

    def process(self, name: str) -> ProcessIdentity:
        found = self.state.supervisor if name == "supervisor" else self.status_of(name).process
        assert found is not None, f"{name} is not running: {self.status_of(name)}"
        return found

    def send(self, name: str, number: signal.Signals) -> ProcessIdentity:
        """Signals the process of that name; returns which one it was."""
        process = self.process(name)
        assert process.send(number)
        return process

    def kill(self, name: str) -> ProcessIdentity:
        return self.send(name, signal.SIGKILL)

    def log(self, name: str) -> str:
        return (self.run / "logs" / f"{name}.log").read_text(errors="replace")

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Nobody tells of changes in the state file, so this looks."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds():  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {PATIENCE_S:g} s; {self.state}") from None

    async def until_replaced(self, process: ProcessIdentity, name: str) -> None:
        """Until the launcher has started another one under that name."""

        def replaced() -> bool:
            return self.status_of(name).process not in (None, process)

        await self.until(replaced, f"another {name}")

    async def until_status(self, client: Client, holds: Callable[[ClusterStatus], bool], what: str) -> ClusterStatus:
        """Nobody tells of changes in the scheduler's view either."""
        status = await client.cluster_status()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds(status):
                    await asyncio.sleep(LOOK_EVERY_S)
                    status = await client.cluster_status()
        except TimeoutError:
            raise AssertionError(f"{what}: not within {PATIENCE_S:g} s; {status}") from None
        return status

    async def until_settled(self, client: Client) -> None:
        """Until every worker that has not been drained is ready, and nothing runs."""
        await self.until_ready(client)
        await self.until_status(
            client, lambda status: not status.jobs_running and not status.jobs_waiting, "no job runs or waits"
        )

    async def until_ready(self, client: Client) -> None:
        """Until every worker that has not been drained is ready."""
        names = {
            process.name
            for process in self.state.processes
            if process.kind == "worker" and process.state is not ProcessState.LEFT
        }

        def ready(status: ClusterStatus) -> bool:
            return names == {worker.info.name for worker in status.workers if worker.state == WorkerStatus.READY}

        await self.until_status(client, ready, "every worker is ready")


def write_cluster(
    folder: Path, workers: Sequence[dict[str, Any]], limits: Mapping[str, float] = LIMITS, **more: Any
) -> PuppetCluster:
    """A cluster file for puppets. `workers`: their entries; a role may be just its name in flows."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = Path(f"/tmp/omniflow-stage-{free_port('127.0.0.1')}-{folder.name[:24]}.sock")
    run = folder / "run"
    content: dict[str, Any] = {
        "cluster": "puppets",
        "run": str(run),
        "restart": {"first_delay_s": 0.05, "max_delay_s": 0.1},
        "start_timeout_s": 60,
        "scheduler": {"listen": f"127.0.0.1:{free_port('127.0.0.1')}", "limits": dict(limits), "drain_timeout_s": 5},
        "workers": [{**worker, "roles": [_role(role, stage) for role in worker["roles"]]} for worker in workers],
        "flows": [str(FLOWS)],
        **more,
    }
    file = folder / "cluster.yaml"
    file.write_text(json.dumps(content, indent=1))
    return PuppetCluster(file, run, content["scheduler"]["listen"], stage)


def _role(role: str | dict[str, Any], stage: Path) -> dict[str, Any]:
    if isinstance(role, dict):
        return role
    return {"class": CLASSES.get(role, PUPPET), "name": role, "options": {"stage": str(stage)}}


@contextmanager
def running(cluster: PuppetCluster) -> Iterator[PuppetCluster]:
    """Up, and down at the end, by force: nothing of it outlives the test."""
    launcher = LocalLauncher()
    launcher.start(load_cluster(cluster.file), Silent())
    try:
        yield cluster
    finally:
        launcher.stop(cluster.run, timeout_s=10, force=True, observer=Silent())
        assert not list(marked_with(cluster.run))
