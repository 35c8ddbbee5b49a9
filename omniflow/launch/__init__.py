"""Starts, looks after and ends the processes of a cluster."""

from omniflow.launch.errors import AddressInUse, AlreadyRunning, LaunchError, NoCluster, StartFailed, StopTimeout
from omniflow.launch.identity import ProcessIdentity
from omniflow.launch.launcher import ClusterState, Kind, Launcher, Observer, ProcessState, ProcessStatus, Silent
from omniflow.launch.local import LocalLauncher
from omniflow.launch.state import DEFAULT_RUN, read_state, run_folder

__all__ = [
    "DEFAULT_RUN",
    "AddressInUse",
    "AlreadyRunning",
    "ClusterState",
    "Kind",
    "LaunchError",
    "Launcher",
    "LocalLauncher",
    "NoCluster",
    "Observer",
    "ProcessIdentity",
    "ProcessState",
    "ProcessStatus",
    "Silent",
    "StartFailed",
    "StopTimeout",
    "read_state",
    "run_folder",
]
