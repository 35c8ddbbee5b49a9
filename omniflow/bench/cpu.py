"""CPU time of a cluster's processes, where they run on this machine."""

import os
from collections.abc import Mapping

import psutil

from omniflow.launch import ClusterState


def client_seconds() -> float:
    """CPU seconds that this process has used."""
    times = os.times()
    return times.user + times.system


def cluster_seconds(state: ClusterState) -> dict[str, dict[int, float]]:
    """CPU seconds by kind of process ("etcd", "scheduler", "workers") and pid."""
    seconds: dict[str, dict[int, float]] = {"etcd": {}, "scheduler": {}, "workers": {}}
    for status in state.processes:
        if status.process is not None and status.process.alive:
            kind = "workers" if status.kind.value == "worker" else status.kind.value
            seconds[kind][status.process.pid] = _seconds(status.process.pid)
    return seconds


Seconds = Mapping[str, Mapping[int, float]]


def spent(before: Seconds, after: Seconds) -> dict[str, float | None]:
    """By kind; None where a process died in between or none was seen, so that the sum would be a lie."""
    return {
        kind: sum(after[kind][pid] - seconds for pid, seconds in pids.items())
        if pids and pids.keys() == after[kind].keys()
        else None
        for kind, pids in before.items()
    }


def _seconds(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return sum(times.user + times.system for times in (member.cpu_times() for member in family))
    except psutil.Error:
        return 0.0
