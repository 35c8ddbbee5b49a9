"""What an operator writes to describe a cluster, checked before anything starts."""

from omniflow.config.cluster import (
    ClusterConfig,
    EtcdConfig,
    LimitsConfig,
    RestartConfig,
    RoleConfig,
    SchedulerConfig,
    WorkerConfig,
)
from omniflow.config.errors import ConfigError
from omniflow.config.load import load_cluster, parse_strict, read_mapping

__all__ = [
    "ClusterConfig",
    "ConfigError",
    "EtcdConfig",
    "LimitsConfig",
    "RestartConfig",
    "RoleConfig",
    "SchedulerConfig",
    "WorkerConfig",
    "load_cluster",
    "parse_strict",
    "read_mapping",
]
