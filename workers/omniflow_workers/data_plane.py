"""The data plane of one worker: it lends the pages of its engines, and they borrow those of other workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omniflow.config import host_of
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow_core import Node
from omniflow_workers.addresses import advertised
from omniflow_workers.config import WorkerConfig
from omniflow_workers.host import LoadedRole
from omniflow_workers.shares_pages import SharesPages

if TYPE_CHECKING:
    from omniflow.v1.data_pb2 import MemoryAccount
    from omniflow_workers.transfer import DataPeers, DataService


class DataPlane:
    """A data service, and connections to those of others."""

    def __init__(self, service: DataService, peers: DataPeers) -> None:
        self._service = service
        self._peers = peers

    def stop_lending(self) -> None:
        """Ends what is lent, before its pages are others'."""
        self._service.close()

    def close(self) -> None:
        """Gives back what is borrowed, and ends what is lent. Again: nothing."""
        self._peers.close()
        self._service.close()


def open_data_plane(
    config: WorkerConfig, info: WorkerInfo, node: Node, roles: Sequence[LoadedRole]
) -> DataPlane | None:
    """None when no role has pages to share. Adds the service's addresses to `info`.

    Raises `InvalidArgument` naming the key of the configuration that is wrong.
    """
    sharing = [loaded.role for loaded in roles if isinstance(loaded.role, SharesPages)]
    if not sharing:
        return None
    # NumPy comes with this, which many roles do without.
    from omniflow_workers.transfer import DataPeers, DataService, EtcdDirectory, Identity

    me = Identity(config.cluster, info.name, info.incarnation, info.host, info.device)
    peers = DataPeers(me, EtcdDirectory(config.etcd, config.cluster), transfer=config.transfer, tls=config.tls)
    try:
        service = DataService(
            me,
            [role.page_source for role in sharing],
            _listens(config),
            tls=config.tls,
            account=[*(role.account for role in sharing), peers.account, _NodeCounters(node)],
        )
    except BaseException:
        peers.close()
        raise
    info.data_addresses.extend(advertised(service.addresses, config.advertise))
    for role in sharing:
        role.meet(peers)
    return DataPlane(service, peers)


def _listens(config: WorkerConfig) -> Sequence[str]:
    """Where links come in over TCP, so do requests for pages, on ports of their own."""
    if config.data_listen is not None:
        return config.data_listen
    return [f"tcp:{host_of(address)}:0" for address in config.listen if address.startswith("tcp:")]


class _NodeCounters:
    """Adds what the worker's data path has in memory."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __call__(self, into: MemoryAccount) -> None:
        found = self._node.stats()
        blobs, node = into.blobs, into.node
        blobs.blobs_now, blobs.bytes_now = found.get("arena_blobs", 0), found.get("arena_bytes", 0)
        blobs.capacity_bytes = found.get("arena_capacity", 0)
        blobs.leases_now, blobs.mapped_now = found.get("lent", 0), found.get("borrowed", 0)
        blobs.sent_in_place, blobs.sent_inline = found.get("sent_in_place", 0), found.get("sent_inline", 0)
        node.jobs_now = found["jobs"]
        node.activations_now = found["activations_queued"] + found["activations_running"]
        node.retained_bytes_now, node.spilled_bytes_now = found["retained_bytes"], found["spilled_bytes"]
