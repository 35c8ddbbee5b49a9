"""A real etcd: one for the tests that leave it alone, one of their own for those that stop it."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniflow.registry import EmbeddedEtcd, this_host
from omniflow.registry.blocking import BlockingEtcd
from omniflow.v1.cluster_pb2 import WorkerInfo

# The embedded etcd grants no shorter lease: one and a half election time-outs.
TTL = 4.0


@pytest.fixture(scope="session")
def shared_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("etcd")
    with EmbeddedEtcd.start(folder / "data") as etcd:
        yield etcd.endpoint


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EmbeddedEtcd]:
    with EmbeddedEtcd.start(tmp_path / "data") as etcd:
        yield etcd


@pytest.fixture
def cluster() -> str:
    """A name of its own for each test, so that they share an etcd without meeting."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def operator(shared_etcd: str) -> Iterator[BlockingEtcd]:
    """Someone with `etcdctl`."""
    etcd = BlockingEtcd([shared_etcd], 5.0)
    yield etcd
    etcd.close()


def worker_info(name: str, incarnation: str = "1", **fields: str) -> WorkerInfo:
    return WorkerInfo(name=name, incarnation=incarnation, pid=os.getpid(), host=fields.get("host", this_host()))


def restarted(etcd: EmbeddedEtcd) -> EmbeddedEtcd:
    """A stopped etcd, started again with its data and ports."""
    settings = etcd.settings
    return EmbeddedEtcd.start(
        settings.data_dir,
        log_file=settings.log_file,
        client_port=settings.client_port,
        peer_port=settings.peer_port,
    )
