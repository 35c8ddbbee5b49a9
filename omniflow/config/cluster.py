"""The cluster file, CLUSTER.yaml: every key that an operator may write, its default, its meaning.

A key that isn't set is not handed on, so that the scheduler's and the worker's own defaults stay the only ones.
"""

import re
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from omniflow.config.heartbeats import DEFAULT_HEARTBEAT_LIMIT_S, DEFAULT_HEARTBEAT_S, check_heartbeats
from omniflow.config.hosts import check_journal_listen, host_of, is_wildcard
from omniflow.config.tls import TlsConfig
from omniflow.types.limits import MAX_INPUT_BYTES

DEFAULT_LISTEN = "127.0.0.1:7070"

LogLevel = Literal["debug", "info", "warning", "error"]
Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", value):
        raise ValueError("a name is 1 to 63 letters, digits, '-', '_' or '.', and starts with a letter or a digit")
    return value


def _host_and_port(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"'{value}' is no address; write HOST:PORT, e.g. {DEFAULT_LISTEN} (port 0: any free one)")
    return value


def _link_address(value: str) -> str:
    scheme, _, rest = value.partition(":")
    if scheme == "unix" and rest:
        return value
    if scheme == "tcp" and rest:
        _host_and_port(rest)
        return value
    raise ValueError(f"'{value}' is no link address; write unix:PATH or tcp:HOST:PORT (port 0: any free one)")


def _check_apart(first: str, second: str) -> None:
    """Two processes of this machine cannot listen on one port, unless it is any free one, or on other addresses."""
    (one, _, port), (other, _, other_port) = first.rpartition(":"), second.rpartition(":")
    if port == other_port != "0" and (one == other or is_wildcard(one) or is_wildcard(other)):
        raise ValueError(f"both schedulers would listen on port {port}; give 'standby_listen' another one")


def _dialled_host(value: str) -> str:
    if is_wildcard(value) or not (re.fullmatch(r"[A-Za-z0-9_.-]+", value) or _is_ipv6(value)):
        raise ValueError(f"'{value}' is nothing to dial; write a host name or an address without a port, e.g. 10.0.0.7")
    return value


def _is_ipv6(value: str) -> bool:
    try:
        IPv6Address(value.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _check_advertised(listen: Iterable[str], advertise: str | None) -> None:
    """A wildcard says nothing about where to dial, and only a wildcard needs somebody to say it."""
    wild = next((address for address in listen if is_wildcard(host_of(address))), None)
    if wild is not None and advertise is None:
        raise ValueError(
            f"'listen' has {wild}, which others cannot dial; add 'advertise: HOST', the name or address of this "
            "machine that they reach it by"
        )
    if wild is None and advertise is not None:
        raise ValueError("'advertise' stands for a wildcard in 'listen' such as 0.0.0.0, and there is none; remove it")


def _class_path(value: str) -> str:
    module, colon, name = value.partition(":")
    if not colon or not all(part.isidentifier() for part in module.split(".")) or not name.isidentifier():
        raise ValueError(f"'{value}' names no class; write module:Class, e.g. omniflow_workers.roles.ocr:Ocr")
    return value


def _etcd_shorthand(value: Any) -> Any:
    return {} if value == "embedded" else value


def _role_shorthand(value: Any) -> Any:
    return {"class": value} if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_name)]
HostPort = Annotated[str, AfterValidator(_host_and_port)]
LinkAddress = Annotated[str, AfterValidator(_link_address)]
DialledHost = Annotated[str, AfterValidator(_dialled_host)]
ClassPath = Annotated[str, AfterValidator(_class_path)]


class _Section(BaseModel):
    """A part of the file: an unknown key is an error, and what was read never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class EtcdConfig(_Section):
    """Where the registry is. `etcd: embedded`, the default, runs one on loopback for this cluster alone."""

    endpoints: tuple[HostPort, ...] = ()
    """The operator's own etcd (3.5.4 or later); empty: the embedded one."""
    data: Path | None = None
    """Data folder of the embedded one; by default `etcd/` in the run folder."""

    @property
    def embedded(self) -> bool:
        """Whether the launcher runs etcd itself."""
        return not self.endpoints

    @model_validator(mode="after")
    def _data_is_for_the_embedded_one(self) -> Self:
        if self.endpoints and self.data is not None:
            raise ValueError("'data' is for the embedded etcd; remove it, or remove 'endpoints'")
        return self


class LimitsConfig(_Section):
    """What the scheduler allows. Names and meanings are those of the scheduler's own configuration."""

    queue_limit: Annotated[int, Field(ge=1)] | None = None
    max_input_bytes: Annotated[int, Field(ge=1024, le=MAX_INPUT_BYTES)] | None = None
    max_held_input_bytes: Annotated[int, Field(ge=1024)] | None = None
    max_kept_result_bytes: Annotated[int, Field(ge=1024)] | None = None
    max_deadline_s: Seconds | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    result_ttl_s: Seconds | None = None
    client_grace_s: Seconds | None = None
    heartbeat_s: Seconds | None = None
    heartbeat_limit_s: Seconds | None = None
    reconnect_s: Seconds | None = None

    @model_validator(mode="after")
    def _heartbeats_come_before_their_limit(self) -> Self:
        check_heartbeats(self.heartbeat_s or DEFAULT_HEARTBEAT_S, self.heartbeat_limit_s or DEFAULT_HEARTBEAT_LIMIT_S)
        return self


class SchedulerConfig(_Section):
    """The scheduler process."""

    listen: HostPort = DEFAULT_LISTEN
    """Where its gRPC services listen."""
    standby_listen: HostPort | None = None
    """Where those of the second one do, with `schedulers: 2`; by default on the next port."""
    advertise: DialledHost | None = None
    """Host name or address by which other machines reach it, where `listen` is a wildcard."""
    policy: Name | None = None
    """How jobs are ordered and placed, e.g. `least-outstanding`."""
    limits: LimitsConfig = LimitsConfig()
    journal: Path | None = None
    """Folder in which accepted jobs survive the scheduler's death; by default `journal/` in the run folder."""
    standby_journal: Path | None = None
    """That of the second one, with `schedulers: 2`; by default beside the first one's, with `-2` to its name."""
    journal_listen: LinkAddress | None = None
    """Where a second scheduler on another machine follows the journal while this one leads."""
    standby_limit_s: Seconds | None = None
    """How long clients wait for the other scheduler when it stops answering."""
    journal_fsync: bool | None = None
    """Wait for the disk with every batch of it, so that they survive the machine's death, too."""
    drain_timeout_s: Seconds | None = None
    env: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _a_wildcard_is_advertised(self) -> Self:
        journal = self.journal_listen if (self.journal_listen or "").startswith("tcp:") else None
        _check_advertised(filter(None, (self.listen, self.standby_listen, journal)), self.advertise)
        if self.journal_listen is not None:
            check_journal_listen(self.journal_listen, self.advertise)
        return self

    def listens(self, schedulers: int) -> tuple[str, ...]:
        """Where each of so many schedulers listens."""
        host, _, port = self.listen.rpartition(":")
        following = f"{host}:{int(port) + 1 if int(port) else 0}"
        return (self.listen, self.standby_listen or following)[:schedulers]


class RoleConfig(_Section):
    """One role that a worker serves. `roles: [module:Class]` is short for `roles: [{class: module:Class}]`."""

    class_path: ClassPath = Field(alias="class")
    name: Name | None = None
    """Name in flows, where it differs from the class's own."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the role, checked by its class."""


class WorkerConfig(_Section):
    """One worker, or `count` equal ones: `NAME`, or `NAME-0`, `NAME-1`, ..."""

    name: Name
    count: Annotated[int, Field(ge=1, le=4096)] = 1
    roles: Annotated[tuple[Annotated[RoleConfig, BeforeValidator(_role_shorthand)], ...], Field(min_length=1)]
    device: str | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    listen: tuple[LinkAddress, ...] = ()
    """Link addresses; by default a Unix socket in the run folder. With `count` > 1 only port 0 makes sense."""
    advertise: DialledHost | None = None
    """Host name or address by which other machines reach it, where `listen` holds a wildcard."""
    transfer: Literal["auto", "local", "collective"] | None = None
    """How KV pages of other workers come: used where they lie (`local`, same host only), sent over a process group
    (`collective`), or whichever is possible (`auto`, the default)."""
    data_listen: tuple[LinkAddress, ...] | None = None
    """Where other workers ask for KV pages: tcp:HOST:PORT; by default on the hosts of `listen`, on any free port. A
    Unix socket without a file is always there."""
    drain_timeout_s: Seconds | None = None
    stuck_after_s: Seconds | None = None
    """A role whose threads all run for jobs that are over, for so long, is broken: the worker is started again."""
    retention_bytes: Annotated[int, Field(ge=1)] | None = None
    """Memory for what it has sent and may have to send again, all jobs together."""
    retention_disk_bytes: Annotated[int, Field(ge=1)] | None = None
    """Disk for streams that nobody reads yet, once that memory is full; none by default."""
    retention_job_bytes: Annotated[int, Field(ge=1)] | None = None
    """What one job may have retained there, in memory and on disk; beyond it it fails with FLOW_STALLED."""
    retention_folder: Path | None = None
    arena_bytes: Annotated[int, Field(ge=0)] | None = None
    """Memory for media and tensors over 64 KiB that it sends, which other workers of the host read in place, taken as
    they come; 512 MiB by default. What does not fit is sent to them. 0: all is."""

    @property
    def names(self) -> tuple[str, ...]:
        """The workers' names in the cluster."""
        return (self.name,) if self.count == 1 else tuple(f"{self.name}-{index}" for index in range(self.count))

    @model_validator(mode="after")
    def _a_wildcard_is_advertised(self) -> Self:
        listens = (*self.listen, *(self.data_listen or ()))
        _check_advertised([address for address in listens if address.startswith("tcp:")], self.advertise)
        return self

    @model_validator(mode="after")
    def _data_is_asked_for_over_tcp(self) -> Self:
        for address in self.data_listen or ():
            if not address.startswith("tcp:"):
                raise ValueError(f"'data_listen' has {address}; write tcp:HOST:PORT (a Unix socket is always there)")
        return self

    @model_validator(mode="after")
    def _equal_workers_cannot_share_an_address(self) -> Self:
        fixed = [address for address in (*self.listen, *(self.data_listen or ())) if not address.endswith(":0")]
        if self.count > 1 and fixed:
            raise ValueError(f"{self.count} workers cannot all listen on {fixed[0]}; use port 0, or leave 'listen' out")
        return self


class RestartConfig(_Section):
    """How soon a process that died is started again: the delay doubles with every death, up to a maximum."""

    first_delay_s: Seconds = 0.2
    max_delay_s: Seconds = 30.0
    stable_after_s: Seconds = 30.0
    """A process that ran for this long starts again with the first delay."""


class ClusterConfig(_Section):
    """One cluster."""

    cluster: Name
    run: Path | None = None
    """The run folder: state, logs, sockets, etcd's data. By default `.omniflow` in the current folder."""
    cache: Path | None = None
    """Where workers keep what is costly to make, such as converted weights."""
    log_level: LogLevel | None = None
    start_timeout_s: Seconds = 180.0
    """How long the whole cluster may take to become ready."""
    restart: RestartConfig = RestartConfig()
    etcd: Annotated[EtcdConfig, BeforeValidator(_etcd_shorthand)] = EtcdConfig()
    tls: TlsConfig | None = None
    """Certificates of this machine's processes, for links over TCP."""
    schedulers: Annotated[int, Field(ge=1, le=2)] = 1
    """With 2, one leads, and the other follows its journal and takes its place when it dies."""
    scheduler: SchedulerConfig = SchedulerConfig()
    workers: Annotated[tuple[WorkerConfig, ...], Field(min_length=1)]
    flows: tuple[str, ...] = ()
    """Flows to register: `path.py` (every flow in it), `path.py:name`, or `module:name`."""

    _file: Path | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """Where it was read from. Modules that lie beside it may be named in `roles` and `flows`."""
        return self._file

    def read_from(self, file: Path) -> Self:
        """The same, said to have been read from `file` (absolute)."""
        copy = self.model_copy()
        copy._file = file
        return copy

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """The names of its schedulers' processes."""
        return ("scheduler", "scheduler-2")[: self.schedulers]

    @property
    def scheduler_listens(self) -> tuple[str, ...]:
        """Where each of its schedulers listens."""
        return self.scheduler.listens(self.schedulers)

    @property
    def worker_names(self) -> tuple[str, ...]:
        """All workers of the cluster, in the file's order."""
        return tuple(name for worker in self.workers for name in worker.names)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        twice = [name for name, times in Counter(self.worker_names).items() if times > 1]
        if twice:
            raise ValueError(f"two workers are called '{twice[0]}'; give each its own name")
        reserved = {"etcd", "supervisor", *self.scheduler_names} & set(self.worker_names)
        if reserved:
            raise ValueError(f"a worker cannot be called '{min(reserved)}': a process of the cluster has that name")
        return self

    @model_validator(mode="after")
    def _schedulers_listen_apart(self) -> Self:
        if self.schedulers == 1:
            for key in ("standby_listen", "standby_journal"):
                if getattr(self.scheduler, key) is not None:
                    raise ValueError(f"'scheduler.{key}' is for 'schedulers: 2'; add that, or remove it")
            if self.scheduler.journal_listen is not None and self.etcd.embedded:
                raise ValueError(
                    "'scheduler.journal_listen' is for a second scheduler on another machine, which does not reach the "
                    "embedded etcd; name yours in 'etcd.endpoints'"
                )
            return self
        if self.scheduler.journal_listen is not None:
            raise ValueError(
                "'scheduler.journal_listen' is for a second scheduler on another machine, and 'schedulers: 2' starts "
                "it on this one; remove one of the two"
            )
        first, second = self.scheduler_listens
        if int(second.rpartition(":")[2]) > 65535:
            raise ValueError("there is no port after 65535 for the second scheduler; set 'scheduler.standby_listen'")
        _check_apart(first, second)
        return self
