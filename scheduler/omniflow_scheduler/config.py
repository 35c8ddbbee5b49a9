"""The scheduler's configuration file (YAML or JSON). An unknown key is an error that names file and line."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from omniflow.config import (
    DEFAULT_HEARTBEAT_LIMIT_S,
    DEFAULT_HEARTBEAT_S,
    DEFAULT_LISTEN,
    DEFAULT_RECONNECT_S,
    MAX_INPUT_BYTES,
    HostPort,
    LinkAddress,
    TlsConfig,
    check_heartbeats,
    check_journal_listen,
    host_of,
    is_wildcard,
    join,
    parse_strict,
)
from omniflow.registry import parse_endpoints

Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]
MEBIBYTE = 1024 * 1024


class SchedulerSettings(BaseModel):
    """Everything that the process is told. What isn't set takes these defaults, the only ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    etcd: Annotated[tuple[str, ...], AfterValidator(parse_endpoints)]
    """HOST:PORT of each etcd endpoint."""
    name: str = "scheduler"
    """Its name in logs."""
    listen: HostPort = DEFAULT_LISTEN
    advertise: str = ""
    """HOST:PORT by which clients on other hosts reach it; empty: what it listens on."""
    policy: str = "least-outstanding"
    queue_limit: Annotated[int, Field(ge=1)] = 100_000
    """Jobs that have been accepted and have not ended; one more is refused with RESOURCE_EXHAUSTED."""
    max_input_bytes: Annotated[int, Field(ge=1024, le=MAX_INPUT_BYTES)] = 64 * MEBIBYTE
    """All inputs of one job together."""
    max_held_input_bytes: Annotated[int, Field(ge=1024)] = 2048 * MEBIBYTE
    """Inputs of all jobs that have not ended; also what may wait for workers to take it."""
    max_kept_result_bytes: Annotated[int, Field(ge=1024)] = 2048 * MEBIBYTE
    """Results that are kept. Those that were delivered make room for others before their time."""
    max_deadline_s: Seconds = 600.0
    """The deadline of a job that names none."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """Tries of one node, where the flow names no number."""
    result_ttl_s: Seconds = 60.0
    """How long an ended job's result is kept for a client that comes back."""
    client_grace_s: Seconds = 5.0
    """How long a job goes on whose client is gone without a word: it may come back to it in that time."""
    journal: Path | None = None
    """Folder in which accepted jobs survive its death; none: they die with it. Of two schedulers each has its own."""
    journal_fsync: bool = False
    """Wait for the disk with every batch: what is accepted then survives the machine's death, too."""
    journal_listen: LinkAddress | None = None
    """Of two schedulers: unix:PATH or tcp:HOST:PORT at which the other one follows the journal while this one leads."""
    standby_limit_s: Seconds = 2.0
    """How long clients wait for a standby that does not answer; then it is marked out of sync."""
    heartbeat_s: Seconds = DEFAULT_HEARTBEAT_S
    heartbeat_limit_s: Seconds = DEFAULT_HEARTBEAT_LIMIT_S
    """A worker that was silent for so long is dead."""
    reconnect_s: Seconds = DEFAULT_RECONNECT_S
    """A worker whose link stays closed for so long is dead."""
    tls: TlsConfig | None = None
    """Certificates for links over TCP; none: they are plain."""
    registration_ttl_s: Annotated[float, Field(ge=2, le=300)] = 10.0
    """A dead leader is replaced after so long (by one on its host at once: it sees that the process is gone)."""
    start_timeout_s: Seconds = 30.0
    """How long to look for etcd at start."""
    drain_timeout_s: Annotated[float, Field(ge=0)] = 30.0
    """On SIGTERM: how long to wait for running jobs."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    @model_validator(mode="after")
    def _heartbeats_come_before_their_limit(self) -> Self:
        check_heartbeats(self.heartbeat_s, self.heartbeat_limit_s)
        return self

    @model_validator(mode="after")
    def _a_journal_can_be_followed(self) -> Self:
        if self.journal_listen is None:
            return self
        if self.journal is None:
            raise ValueError("'journal_listen' lets a standby follow the journal, and there is none; set 'journal'")
        check_journal_listen(self.journal_listen, self.advertise)
        return self

    @property
    def journal_address(self) -> str:
        """Where the standby dials; empty: nobody may follow."""
        listen = self.journal_listen or ""
        if listen.startswith("tcp:") and is_wildcard(host_of(listen)):
            return f"tcp:{join(self.advertise.rpartition(':')[0], int(listen.rpartition(':')[2]))}"
        return listen


def load_settings(file: Path) -> SchedulerSettings:
    """Raises `omniflow.config.ConfigError` that lists every mistake with its line."""
    return parse_strict(SchedulerSettings, file)
