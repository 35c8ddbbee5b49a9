"""What an operator writes to describe a cluster, checked before anything starts."""

from omniflow.config.cluster import (
    DEFAULT_LISTEN,
    ClusterConfig,
    EtcdConfig,
    HostPort,
    LimitsConfig,
    LinkAddress,
    RestartConfig,
    RoleConfig,
    SchedulerConfig,
    WorkerConfig,
)
from omniflow.config.errors import ConfigError
from omniflow.config.heartbeats import (
    DEFAULT_HEARTBEAT_LIMIT_S,
    DEFAULT_HEARTBEAT_S,
    DEFAULT_RECONNECT_S,
    check_heartbeats,
)
from omniflow.config.hosts import check_journal_listen, host_of, is_wildcard, join
from omniflow.config.load import line_of, load_cluster, parse_strict, read_mapping
from omniflow.config.tls import TLS_CURE, TlsConfig
from omniflow.types.limits import MAX_INPUT_BYTES

__all__ = [
    "DEFAULT_HEARTBEAT_LIMIT_S",
    "DEFAULT_HEARTBEAT_S",
    "DEFAULT_LISTEN",
    "DEFAULT_RECONNECT_S",
    "MAX_INPUT_BYTES",
    "TLS_CURE",
    "ClusterConfig",
    "ConfigError",
    "EtcdConfig",
    "HostPort",
    "LimitsConfig",
    "LinkAddress",
    "RestartConfig",
    "RoleConfig",
    "SchedulerConfig",
    "TlsConfig",
    "WorkerConfig",
    "check_heartbeats",
    "check_journal_listen",
    "host_of",
    "is_wildcard",
    "join",
    "line_of",
    "load_cluster",
    "parse_strict",
    "read_mapping",
]
