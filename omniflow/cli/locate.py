"""Which cluster a command means: `--address`, `--cluster FILE`, or what runs on `.omniflow` in the current folder."""

from dataclasses import dataclass
from pathlib import Path

from omniflow.config import load_cluster
from omniflow.errors import OmniFlowError
from omniflow.launch import DEFAULT_RUN, ClusterState, LocalLauncher, NoCluster, run_folder


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster. `address`: of its scheduler; of two both, with a comma between them.

    `state` is there when it was started on this machine, on the run folder that was found.
    """

    address: str
    state: ClusterState | None = None


def locate(cluster: Path | None, address: str | None) -> Target:
    """Raises `NoCluster`, or `ConfigError` for a bad cluster file."""
    if address:
        return Target(address)
    run = run_of(cluster)
    try:
        state = LocalLauncher().status(run)
    except NoCluster:
        listens = load_cluster(cluster).scheduler_listens if cluster else ()
        if not listens or any(listen.endswith(":0") for listen in listens):
            raise
        # Perhaps it was started elsewhere, and only its file is here.
        return Target(",".join(listens))
    return Target(state.address, state)


def run_of(cluster: Path | None) -> Path:
    """The run folder of a cluster file; by default the one in the current folder."""
    return run_folder(load_cluster(cluster)) if cluster else DEFAULT_RUN.absolute()


def explain_unreachable(error: OmniFlowError, target: Target) -> OmniFlowError:
    """Adds what the state file knows."""
    if target.state and not target.state.ready:
        error.cure = "the cluster is still starting: wait for `omniflow up` to say that it is ready"
    return error
