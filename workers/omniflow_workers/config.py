"""What one worker process needs to know: the file of `python -m omniflow_workers --config FILE`."""

import uuid
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from omniflow.config import DEFAULT_HEARTBEAT_LIMIT_S, DEFAULT_RECONNECT_S, TlsConfig, parse_strict

JsonValue = Any


class RoleConfig(BaseModel):
    """One role that the worker serves."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    class_path: str = Field(alias="class", pattern=r"^[\w.]+:\w+$", description="module:Class")
    name: str | None = Field(default=None, description="what flows call it; the class's own name by default")
    options: dict[str, JsonValue] = Field(default_factory=dict, description="keyword arguments of the class")


class WorkerConfig(BaseModel):
    """One worker process. An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str
    name: str
    etcd: list[str] = Field(min_length=1, description="host:port of each etcd endpoint")
    roles: list[RoleConfig] = Field(min_length=1)
    listen: list[str] = Field(default=["tcp:127.0.0.1:0"], min_length=1, description="unix:PATH or tcp:HOST:PORT")
    advertise: str | None = Field(
        default=None, pattern=r"^\S+$", description="host name or address that other machines reach this one by"
    )
    transfer: Literal["auto", "local", "collective"] = Field(
        default="auto", description="how pages of other workers may come: in place, over a process group, or either"
    )
    data_listen: list[str] | None = Field(
        default=None, description="tcp:HOST:PORT for requests for pages; None: the hosts of `listen`, on any free port"
    )
    device: str = "cpu"
    threads: int | None = Field(default=None, ge=1, description="CPU threads of each engine; None: the engine's choice")
    drain_timeout_s: float = Field(default=30.0, ge=0)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    stuck_after_s: float = Field(default=30.0, gt=0, description="a role without a living thread for so long is broken")
    heartbeat_limit_s: float = Field(
        default=DEFAULT_HEARTBEAT_LIMIT_S, gt=0, description="a scheduler or worker silent for so long is gone"
    )
    reconnect_s: float = Field(
        default=DEFAULT_RECONNECT_S, gt=0, description="a link that stays broken for so long is lost"
    )
    tls: TlsConfig | None = Field(default=None, description="certificates for links over TCP; None: they are plain")
    retention_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    retention_disk_bytes: int = Field(default=0, ge=0, description="of streams nobody reads yet, once memory is full")
    retention_job_bytes: int = Field(default=0, ge=0, description="what one job may have retained here; 0: no limit")
    retention_folder: Path | None = Field(default=None, description="for what is on disk; None: that for such files")
    arena_bytes: int = Field(
        default=512 * 1024 * 1024, ge=0, description="of big values that workers of the host read in place; 0: none are"
    )


def read_config(path: Path) -> WorkerConfig:
    """Reads a YAML (or JSON) file. Raises ConfigError listing every mistake with its line."""
    return parse_strict(WorkerConfig, path)


def new_incarnation() -> str:
    """A name for this life of the worker, unlike that of any other."""
    return uuid.uuid4().hex
