"""Who has pages to lend is found in the registry, and what is found there is no more than where to ask."""

from __future__ import annotations

from omniflow.registry import Registration, this_host
from omniflow_workers.transfer import DataPeers, DataService, EtcdDirectory, Identity
from tests.cluster_fixtures.data_plane import info_of, wait_until
from tests.cluster_fixtures.tiny_source import MODEL, TinySource, keys_of
from tests.integration.registry.conftest import TTL

LAYOUT = "bytes"


def test_a_worker_with_pages_is_found_and_asked_while_it_lives(shared_etcd: str, cluster: str) -> None:
    source = TinySource(64)
    source.compute(1, 8)
    service = DataService(Identity(cluster, "owner", "first", this_host()), [source])
    directory = EtcdDirectory([shared_etcd], cluster)
    peers = DataPeers(Identity(cluster, "borrower", "first", this_host()), directory)
    try:
        assert peers.best(MODEL, LAYOUT, keys_of(1, 8)) is None
        info = info_of("owner", service.addresses, source)
        info.host = this_host()
        with Registration(shared_etcd, cluster, info, ttl=TTL):
            wait_until(lambda: peers.workers(MODEL, LAYOUT) == ["owner"], "its registration")
            assert peers.workers("another model", LAYOUT) == []
            with peers.best(MODEL, LAYOUT, keys_of(1, 8), within=30.0) as borrowed:  # type: ignore[union-attr]
                assert (borrowed.worker, len(borrowed.pages)) == ("owner", 8)
                assert source.leased == 8
        wait_until(lambda: peers.workers(MODEL, LAYOUT) == [], "the end of its registration")
        wait_until(lambda: source.leased == 0, "the lease's end")
    finally:
        peers.close()
        service.close()
