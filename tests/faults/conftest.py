"""One cluster for all faults that it must survive; the others start their own."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.visitors import client, stage

__all__ = ["client", "stage"]

WORKERS: list[dict[str, Any]] = [
    {"name": "one", "roles": ["first"]},
    {"name": "two", "count": 2, "roles": ["second"]},
    {"name": "three", "roles": ["third", "loner"], "stuck_after_s": 0.5},
]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    with running(write_cluster(tmp_path_factory.mktemp("shared"), WORKERS)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster(shared: PuppetCluster) -> PuppetCluster:
    """The shared one, where a module has none of its own."""
    return shared
