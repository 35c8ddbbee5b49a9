"""The launcher for one machine: every process is a child of a supervisor."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from omniflow.config import ClusterConfig
from omniflow.errors import OmniFlowError, from_proto
from omniflow.launch.errors import LaunchError, NoCluster, StartFailed, StopTimeout
from omniflow.launch.identity import wait_for_end
from omniflow.launch.launcher import ClusterState, Observer
from omniflow.launch.state import RunLock, already_running, down_command, read_state, run_folder
from omniflow.launch.strays import sweep
from omniflow.launch.told import write_told
from omniflow.v1 import error_pb2


class LocalLauncher:
    """Implements `Launcher` with child processes."""

    def run(self, config: ClusterConfig, observer: Observer) -> None:
        """In the foreground, until SIGTERM, SIGINT or SIGHUP has ended everything. Raises `OmniFlowError`."""
        _check_not_running(run_folder(config))
        asyncio.run(supervise(config, observer))

    def start(self, config: ClusterConfig, observer: Observer) -> ClusterState:
        """In the background: the supervisor goes on in a session of its own. Raises `OmniFlowError`, as `run` does."""
        run = run_folder(config)
        _check_not_running(run)
        try:
            told = write_told(config, run)
        except OSError as error:
            raise _cannot_use(run, error) from None
        reading, writing = os.pipe()
        process = self._spawn_supervisor(told, run, writing)
        os.close(writing)
        try:
            return self._follow(run, reading, observer)
        except BaseException as error:
            if not isinstance(error, OmniFlowError):  # Ctrl-C: it has a session of its own, and hears nothing of it
                process.terminate()
            process.wait()
            raise

    def stop(self, run: Path, *, timeout_s: float, force: bool, observer: Observer) -> bool:
        """Ends the cluster of this run folder; with `force` at once. False when nothing ran. Raises `StopTimeout`."""
        if not run.is_dir():
            return False
        state = read_state(run)
        found = state is not None and state.supervisor.alive
        if state and found:
            observer.progress(f"ending cluster '{state.cluster}' (supervisor pid {state.supervisor.pid})")
            state.supervisor.send(signal.SIGKILL if force else signal.SIGTERM)
            if not wait_for_end(state.supervisor, timeout_s):
                raise StopTimeout(
                    f"cluster '{state.cluster}' is still draining after {timeout_s:g} s",
                    cure=f"wait and call `{down_command(run)}` again, or with `--force` to end it at once",
                )
        lock = RunLock(run)
        try:
            return bool(sweep(run)) or found
        finally:
            lock.release()

    def status(self, run: Path) -> ClusterState:
        """The state as the supervisor wrote it last. Raises `NoCluster`."""
        state = read_state(run)
        if state is None:
            raise NoCluster(f"no cluster runs on {run}", cure="start one with `omniflow up CLUSTER.yaml`")
        if not state.supervisor.alive:
            raise NoCluster(
                f"cluster '{state.cluster}' on {run} has lost its supervisor (pid {state.supervisor.pid})",
                cure=f"`omniflow up` starts it anew, `{down_command(run)}` clears up",
            )
        return state

    def _spawn_supervisor(self, told: Path, run: Path, report: int) -> "subprocess.Popen[bytes]":
        try:
            log = os.open(run / "logs" / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError:
            log = os.open(os.devnull, os.O_WRONLY)
        command = [sys.executable, "-m", "omniflow.launch", str(told), "--report", str(report)]
        try:
            return subprocess.Popen(  # noqa: S603 ourselves
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(report,),
                start_new_session=True,
            )
        finally:
            os.close(log)

    def _follow(self, run: Path, reading: int, observer: Observer) -> ClusterState:
        """What the supervisor reports, until it is ready or has failed."""
        for message in _messages(reading):
            if "progress" in message:
                observer.progress(message["progress"])
            elif "failed" in message:
                raise _failure(message)
            elif "ready" in message:
                return self.status(run)
        log = run / "logs" / "supervisor.log"
        raise StartFailed("the supervisor ended before the cluster was ready", cure=f"its log is {log}")


async def supervise(
    config: ClusterConfig, observer: Observer, on_ready: Callable[[ClusterState], None] | None = None
) -> None:
    """Runs the cluster in this process until it is told to end. Raises `OmniFlowError` when it does not start."""
    from omniflow.launch.flows import compile_flows
    from omniflow.launch.plan import make_plan
    from omniflow.launch.startup import ClusterStartup
    from omniflow.launch.supervisor import Supervisor

    flows = compile_flows(config.file, config.flows)

    def ready(state: ClusterState) -> None:
        observer.progress(f"cluster '{state.cluster}' is ready at {state.address} (logs: {state.run / 'logs'})")
        if on_ready is not None:
            on_ready(state)

    plan = make_plan(config)
    try:
        await Supervisor(plan, ClusterStartup(flows), observer, ready).run()
    except OSError as error:
        raise _cannot_use(plan.run, error) from error


def _failure(message: dict[str, Any]) -> OmniFlowError:
    """What kept the supervisor from starting, as it would have been raised here."""
    parts = message["failed"]
    return from_proto(error_pb2.Error(code=message["code"], **parts)) if message["code"] else StartFailed(**parts)


def _check_not_running(run: Path) -> None:
    """The lock decides; this only tells it before anything is loaded."""
    if (state := read_state(run)) and state.supervisor.alive:
        raise already_running(run)


def _cannot_use(run: Path, error: OSError) -> LaunchError:
    return LaunchError(
        f"the run folder {run} cannot be used: {error}", field="run", cure="name another one with `run:` in the file"
    )


def _messages(reading: int) -> Iterator[dict[str, Any]]:
    with os.fdopen(reading, "rb") as pipe:
        for line in pipe:
            yield json.loads(line)
