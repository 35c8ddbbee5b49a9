"""The run folder's state file: how other commands, and the next `up`, find what belongs to a cluster."""

import fcntl
import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omniflow.config import ClusterConfig
from omniflow.launch.errors import AlreadyRunning
from omniflow.launch.identity import ProcessIdentity, wait_for_end
from omniflow.launch.launcher import ClusterState, Kind, ProcessState, ProcessStatus

STATE_FILE = "state.json"
DEFAULT_RUN = Path(".omniflow")
_FORMAT = 1


def run_folder(config: ClusterConfig) -> Path:
    """The cluster's run folder, absolute."""
    return Path(os.path.abspath(config.run or DEFAULT_RUN))


def make_rooms(run: Path) -> None:
    """The run folder, for this user alone (options and `env` may hold secrets), with its rooms. Raises OSError."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    for room in ("logs", "config"):
        (run / room).mkdir(mode=0o700, exist_ok=True)


def write_private(file: Path, text: str) -> None:
    """Writes a file that only this user may read, whatever it was before. Raises OSError."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as writing:
        writing.write(text)


class RunLock:
    """Held on the run folder by the supervisor for as long as it lives: the kernel lets go even after `kill -9`."""

    def __init__(self, run: Path) -> None:
        """Raises `AlreadyRunning`."""
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not (self._locked() or (_is_dying(run) and self._locked())):
            os.close(self._descriptor)
            raise already_running(run)

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Another supervisor may take the folder."""
        os.close(self._descriptor)


def _is_dying(run: Path) -> bool:
    """Whether the supervisor there was killed a moment ago: it lets go of the lock with its last thread."""
    state = read_state(run)
    return state is not None and not state.supervisor.alive and wait_for_end(state.supervisor, timeout_s=5)


def down_command(run: Path) -> str:
    """What to type, in any folder, to end the cluster of this run folder."""
    return f"omniflow down --run {shlex.quote(str(run))}"


def already_running(run: Path) -> AlreadyRunning:
    """The error, with what is known of the cluster that runs there."""
    state = read_state(run)
    who = (
        f"cluster '{state.cluster}' (supervisor pid {state.supervisor.pid}, scheduler at {state.address})"
        if state
        else "a cluster"
    )
    return AlreadyRunning(
        f"{who} already runs on {run}",
        cure=f"end it with `{down_command(run)}`, or give this cluster a folder of its own with `run:` in its file",
    )


def write_state(state: ClusterState) -> None:
    """Replaces the file in one step, so that no reader sees half of it. Raises OSError."""
    file = state.run / STATE_FILE
    text = json.dumps({"format": _FORMAT, **asdict(state)}, default=str, indent=1)
    draft = file.with_name(file.name + ".new")
    draft.write_text(text)
    draft.replace(file)


def read_state(run: Path) -> ClusterState | None:
    """What the last supervisor wrote; None when there is no (readable) state."""
    try:
        content = json.loads((run / STATE_FILE).read_text())
        return _parse(content) if content["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_state(run: Path) -> None:
    """Nothing runs here any more."""
    (run / STATE_FILE).unlink(missing_ok=True)
    (run / f"{STATE_FILE}.new").unlink(missing_ok=True)


def _parse(content: dict[str, Any]) -> ClusterState:
    return ClusterState(
        cluster=content["cluster"],
        run=Path(content["run"]),
        address=content["address"],
        etcd=tuple(content["etcd"]),
        supervisor=ProcessIdentity(**content["supervisor"]),
        ready=content["ready"],
        sockets=Path(content["sockets"]) if content["sockets"] else None,
        processes=tuple(_parse_process(process) for process in content["processes"]),
    )


def _parse_process(content: dict[str, Any]) -> ProcessStatus:
    return ProcessStatus(
        name=content["name"],
        kind=Kind(content["kind"]),
        state=ProcessState(content["state"]),
        log=Path(content["log"]),
        process=ProcessIdentity(**content["process"]) if content["process"] else None,
        restarts=content["restarts"],
        last_exit=content["last_exit"],
    )
