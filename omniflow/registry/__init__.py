"""The registry: who exists, who leads, which flows are known. It lies in etcd, under `/omniflow/<cluster>/`.

Built on the messages and stubs of `aetcd` 1.0, the maintained asyncio client of etcd's API. The older `etcd3` 0.12.0
does not import beside protobuf >= 4. Connections, deadlines, fail-over and watches are our own: aetcd's watcher gives
up when its connection breaks, and its client knows one endpoint.
"""

from omniflow.registry.election import Election, Leader
from omniflow.registry.embedded import EmbeddedEtcd, EtcdSettings, wait_healthy
from omniflow.registry.endpoints import parse_endpoints
from omniflow.registry.errors import (
    EtcdFailed,
    NameTaken,
    NoLeader,
    PortTaken,
    RegistryError,
    RegistryUnreachable,
)
from omniflow.registry.keys import process_is_gone, this_host
from omniflow.registry.registration import Registration
from omniflow.registry.registry import Registry
from omniflow.registry.sync_set import Candidate, SyncSet
from omniflow.registry.watch import Gone, Put, Watch

__all__ = [
    "Candidate",
    "Election",
    "EmbeddedEtcd",
    "EtcdFailed",
    "EtcdSettings",
    "Gone",
    "Leader",
    "NameTaken",
    "NoLeader",
    "PortTaken",
    "Put",
    "Registration",
    "Registry",
    "RegistryError",
    "RegistryUnreachable",
    "SyncSet",
    "Watch",
    "parse_endpoints",
    "process_is_gone",
    "this_host",
    "wait_healthy",
]
