"""From a cluster file to the processes that run it. Pure, but for choosing free ports."""

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omniflow.config import ClusterConfig, WorkerConfig, is_wildcard, join
from omniflow.launch.etcd import etcd_spec
from omniflow.launch.identity import MARK
from omniflow.launch.launcher import Kind
from omniflow.launch.ports import reachable, split, with_real_ports
from omniflow.launch.process import ProcessSpec
from omniflow.launch.sockets import socket_folder
from omniflow.launch.state import make_rooms, run_folder, write_private
from omniflow.registry import EtcdSettings

CACHE_VARIABLE = "OMNIFLOW_CACHE"
DEFAULT_DRAIN_S = 30.0
_GRACE_S = 5.0
"""What a process may take beyond its own drain time-out before it is killed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start."""

    config: ClusterConfig
    run: Path
    addresses: tuple[str, ...]
    """Where clients on this machine reach each scheduler."""
    listens: tuple[str, ...]
    """Where each scheduler listens."""
    etcd_endpoints: tuple[str, ...]
    etcd: ProcessSpec | None
    schedulers: tuple[ProcessSpec, ...]
    workers: tuple[ProcessSpec, ...]
    sockets: Path
    files: dict[Path, dict[str, Any]]
    """Configuration files of the processes, to be written before they start."""

    @property
    def specs(self) -> tuple[ProcessSpec, ...]:
        """All processes, in the order of their start."""
        return (*((self.etcd,) if self.etcd else ()), *self.schedulers, *self.workers)

    @property
    def address(self) -> str:
        """What clients on this machine are told: the leader is at one of them."""
        return ",".join(self.addresses)


def make_plan(config: ClusterConfig) -> Plan:
    """Names, addresses, command lines and configuration files of every process."""
    run = run_folder(config)
    listens = with_real_ports(config.scheduler_listens)
    sockets = socket_folder(run, (*config.worker_names, *_journal_sockets(config)))
    others = {split(address)[1] for address in listens}
    embedded = EtcdSettings(config.etcd.data or run / "etcd", _log(run, "etcd")).with_ports(avoid=others)
    endpoints = config.etcd.endpoints or (embedded.endpoint,)
    shared: dict[str, Any] = {"cluster": config.cluster, "etcd": list(endpoints)}
    if config.tls:
        shared["tls"] = config.tls.model_dump(mode="json")
    files: dict[Path, dict[str, Any]] = {}
    common = _environment(config, run)

    etcd = None
    if config.etcd.embedded:
        spec = etcd_spec(embedded, _log(run, "etcd"))
        etcd = replace(spec, env={**spec.env, **common})

    schedulers = []
    for index, (name, listen) in enumerate(zip(config.scheduler_names, listens, strict=True)):
        file = run / "config" / f"{name}.json"
        files[file] = {**shared, **_scheduler_keys(config, name, listen), **_journal_keys(config, run, sockets, index)}
        schedulers.append(_scheduler_spec(config, name, file, _log(run, name), common))

    workers = []
    for worker in config.workers:
        for name in worker.names:
            socket = sockets / f"{name}.sock"
            file = run / "config" / f"{name}.json"
            files[file] = {**shared, **_worker_keys(config, worker, name, socket)}
            workers.append(_worker_spec(worker, name, file, socket, _log(run, name), common))
    return Plan(
        config=config,
        run=run,
        addresses=tuple(reachable(listen) for listen in listens),
        listens=listens,
        etcd_endpoints=tuple(endpoints),
        etcd=etcd,
        schedulers=tuple(schedulers),
        workers=tuple(workers),
        sockets=sockets,
        files=files,
    )


def write_files(plan: Plan) -> None:
    """Makes the run folder's rooms and writes the processes' configuration. Raises OSError."""
    make_rooms(plan.run)
    for file, content in plan.files.items():
        write_private(file, json.dumps(content, indent=1))


def _scheduler_keys(config: ClusterConfig, name: str, listen: str) -> dict[str, Any]:
    scheduler = config.scheduler
    host, port = split(listen)
    optional = {
        "advertise": join(scheduler.advertise, port) if scheduler.advertise and is_wildcard(host) else None,
        "policy": scheduler.policy,
        "drain_timeout_s": scheduler.drain_timeout_s,
        "log_level": config.log_level,
        **scheduler.limits.model_dump(),
    }
    return {"name": name, "listen": listen, **_set(optional)}


def _journal_keys(config: ClusterConfig, run: Path, sockets: Path, index: int) -> dict[str, Any]:
    """Each scheduler has a journal of its own; of two, the one that does not lead follows the other's."""
    scheduler = config.scheduler
    first = scheduler.journal or run / "journal"
    second = scheduler.standby_journal or first.with_name(f"{first.name}-2")
    follow = str(scheduler.journal_listen) if scheduler.journal_listen else None
    if config.schedulers > 1:
        follow = f"unix:{sockets / _journal_sockets(config)[index]}.sock"
    optional = {
        "journal_fsync": scheduler.journal_fsync,
        "journal_listen": follow,
        "standby_limit_s": scheduler.standby_limit_s,
    }
    return {"journal": str((first, second)[index]), **_set(optional)}


def _journal_sockets(config: ClusterConfig) -> tuple[str, ...]:
    """Where each of two schedulers lets the other one follow."""
    return tuple(f"{name}.journal" for name in config.scheduler_names) if config.schedulers > 1 else ()


def _scheduler_spec(config: ClusterConfig, name: str, file: Path, log: Path, common: dict[str, str]) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        kind=Kind.SCHEDULER,
        argv=(sys.executable, "-m", "omniflow_scheduler", "--config", str(file)),
        log=log,
        env={**common, **config.scheduler.env},
        stop_timeout_s=(config.scheduler.drain_timeout_s or DEFAULT_DRAIN_S) + _GRACE_S,
    )


def _worker_keys(config: ClusterConfig, worker: WorkerConfig, name: str, socket: Path) -> dict[str, Any]:
    optional = {
        "advertise": worker.advertise,
        "device": worker.device,
        "threads": worker.threads,
        "drain_timeout_s": worker.drain_timeout_s,
        "stuck_after_s": worker.stuck_after_s,
        "heartbeat_limit_s": config.scheduler.limits.heartbeat_limit_s,
        "reconnect_s": config.scheduler.limits.reconnect_s,
        "log_level": config.log_level,
        "retention_bytes": worker.retention_bytes,
        "retention_disk_bytes": worker.retention_disk_bytes,
        "retention_job_bytes": worker.retention_job_bytes,
        "transfer": worker.transfer,
        "data_listen": list(worker.data_listen) if worker.data_listen is not None else None,
        "arena_bytes": worker.arena_bytes,
        "retention_folder": str(worker.retention_folder) if worker.retention_folder else None,
    }
    roles = [role.model_dump(by_alias=True, exclude_none=True) for role in worker.roles]
    return {"name": name, "roles": roles, "listen": list(worker.listen) or [f"unix:{socket}"], **_set(optional)}


def _worker_spec(
    worker: WorkerConfig, name: str, file: Path, socket: Path, log: Path, common: dict[str, str]
) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        kind=Kind.WORKER,
        argv=(sys.executable, "-m", "omniflow_workers", "--config", str(file)),
        log=log,
        env={**common, **worker.env},
        sockets=() if worker.listen else (socket,),
        stop_timeout_s=(worker.drain_timeout_s or DEFAULT_DRAIN_S) + _GRACE_S,
        may_leave=True,
    )


def _environment(config: ClusterConfig, run: Path) -> dict[str, str]:
    environment = {MARK: str(run), "PYTHONUNBUFFERED": "1"}
    if config.cache:
        environment[CACHE_VARIABLE] = str(config.cache)
    if config.file:
        # Role modules may lie beside the cluster file.
        inherited = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(config.file.parent), *([inherited] if inherited else [])])
    return environment


def _log(run: Path, name: str) -> Path:
    return run / "logs" / f"{name}.log"


def _set(optional: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in optional.items() if value is not None}
