"""One cluster for all faults that it must survive; the others start their own."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from omniflow.client import Client
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.stage import Stage, open_stage

WORKERS: list[dict[str, Any]] = [
    {"name": "one", "roles": ["first"]},
    {"name": "two", "count": 2, "roles": ["second"]},
    {"name": "three", "roles": ["third", "loner"], "stuck_after_s": 0.5},
]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    with running(write_cluster(tmp_path_factory.mktemp("shared"), WORKERS)) as cluster:
        yield cluster


@pytest.fixture
async def client(shared: PuppetCluster) -> AsyncIterator[Client]:
    """Connected to the shared cluster, in which everything is well."""
    async with Client(shared.address) as connected:
        await shared.until_settled(connected)
        yield connected


@pytest.fixture
async def stage(shared: PuppetCluster) -> AsyncIterator[Stage]:
    async with open_stage(shared.stage) as opened:
        yield opened
