"""What `status` and `workers` show."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from rich.table import Table

from omniflow.cli.consoles import plain_table
from omniflow.cli.memory_view import memory_json
from omniflow.launch import ClusterState, Kind, ProcessStatus
from omniflow.report import describe_seconds
from omniflow.v1 import cluster_pb2


def process_table(state: ClusterState) -> Table:
    """The processes that the supervisor looks after."""
    table = plain_table("process", "pid", "state", "restarts", "last end", "log", right=("pid", "restarts"))
    table.add_row("supervisor", str(state.supervisor.pid), "ready" if state.ready else "starting", "", "", "")
    for process in state.processes:
        pid = str(process.process.pid) if process.process else "-"
        restarts = str(process.restarts or "")
        table.add_row(process.name, pid, process.state.value, restarts, process.last_exit, process.log.name)
    table.caption, table.caption_justify = f"logs in {state.run / 'logs'}", "left"
    return table


def summary_lines(status: cluster_pb2.ClusterStatus, leader: str, state: ClusterState | None = None) -> list[str]:
    """The cluster as a whole. `leader`: the address of the scheduler that answered."""
    jobs = f"jobs: {status.jobs_running} running, {status.jobs_waiting} waiting, {status.jobs_succeeded} succeeded"
    lines = [
        f"cluster '{status.cluster}' at {leader}, up {describe_seconds(status.uptime_ms / 1000)}, term {status.term}",
        f"{jobs}, {status.jobs_failed} failed (policy {status.policy}, room for {status.queue_limit})",
    ]
    if status.HasField("standby"):
        lines.append(standby_line(status.standby, _name_of(leader, state)))
    if not status.registry_reachable:
        lines.append("etcd is not reachable: what runs goes on, but nobody new can join")
    return lines


def standby_line(standby: cluster_pb2.StandbyStatus, leader: str) -> str:
    """Of two schedulers: who leads, and whether the other one could take over now. `leader`: its name or address."""
    name = standby.name or "the other one"
    match standby.state:
        case cluster_pb2.StandbyStatus.IN_SYNC:
            return f"{leader} leads, {name} stands by, in sync"
        case cluster_pb2.StandbyStatus.CATCHING_UP:
            return f"{leader} leads, {name} catches up ({standby.behind} entries behind): it cannot take over yet"
        case cluster_pb2.StandbyStatus.LEAVING:
            return f"{leader} leads, {name} does not answer: what is new waits until etcd has marked it out of sync"
        case _:
            return f"{leader} leads, {name} is away: nobody stands by"


def _name_of(leader: str, state: ClusterState | None) -> str:
    """The leading process's name, where it is one of this machine's."""
    addresses = state.address.split(",") if state else []
    schedulers = [process for process in state.processes if process.kind is Kind.SCHEDULER] if state else []
    if leader in addresses and len(schedulers) == len(addresses):
        return schedulers[addresses.index(leader)].name
    return leader


def worker_table(workers: Iterable[cluster_pb2.WorkerStatus]) -> Table:
    """One row a worker."""
    table = plain_table(
        "worker", "state", "roles", "device", "pid", "running", "done", right=("pid", "running", "done")
    )
    for worker in sorted(workers, key=lambda worker: worker.info.name):
        table.add_row(
            worker.info.name,
            cluster_pb2.WorkerStatus.State.Name(worker.state).lower(),
            ", ".join(role.name for role in worker.info.roles),
            worker.info.device,
            str(worker.info.pid),
            str(worker.outstanding),
            str(worker.completed),
        )
    return table


def model_lines(workers: Iterable[cluster_pb2.WorkerStatus]) -> list[str]:
    """Which weights each role has, in how many copies, and how its KV lies.

    Workers of one device share a copy. Two lines for one role: its workers can share neither weights nor pages.
    """
    found: dict[tuple[str, str, str], list[cluster_pb2.WorkerInfo]] = {}
    for worker in workers:
        for role in worker.info.roles:
            if role.weights_fingerprint:
                found.setdefault((role.name, role.weights_fingerprint[:12], _layout(role)), []).append(worker.info)
    return [
        f"{role} on {', '.join(sorted(info.name for info in infos))}: weights {weights}{_copies(infos)}{layout}"
        for (role, weights, layout), infos in sorted(found.items(), key=lambda each: each[0])
    ]


def _layout(role: cluster_pb2.RoleInfo) -> str:
    pages = role.page_layout
    if not role.HasField("page_layout"):
        return ""
    return f", pages of {pages.page_tokens} tokens ({pages.page_bytes / 1024:.4g} KiB)"


def _copies(infos: Collection[cluster_pb2.WorkerInfo]) -> str:
    if len(infos) == 1:
        return ""
    copies = len({(info.host, info.device) for info in infos})
    return f" (1 copy for all {len(infos)})" if copies == 1 else f" ({copies} copies)"


def status_json(
    status: cluster_pb2.ClusterStatus | None,
    state: ClusterState | None,
    memory: Sequence[cluster_pb2.WorkerMemory] | None = None,
) -> str:
    """`cluster`: the scheduler's answer, or null; `local`: the processes, null when it was started elsewhere; `memory`:
    what each worker says of its memory, where it was asked."""
    answer = (
        MessageToDict(status, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        if status is not None
        else None
    )
    shown: dict[str, Any] = {"cluster": answer, "local": _local(state) if state else None}
    if memory is not None:
        shown["memory"] = memory_json(memory)
    return json.dumps(shown, indent=1)


def _local(state: ClusterState) -> dict[str, Any]:
    return {
        "run": str(state.run),
        "address": state.address,
        "etcd": list(state.etcd),
        "ready": state.ready,
        "supervisor_pid": state.supervisor.pid,
        "processes": [_process(process) for process in state.processes],
    }


def _process(process: ProcessStatus) -> dict[str, Any]:
    return {
        "name": process.name,
        "kind": process.kind.value,
        "state": process.state.value,
        "pid": process.process.pid if process.process else None,
        "restarts": process.restarts,
        "last_exit": process.last_exit,
        "log": str(process.log),
    }
