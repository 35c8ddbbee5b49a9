"""Fixtures for whoever has a `cluster`: a client of it, and the stage where its puppets report."""

from collections.abc import AsyncIterator

import pytest

from omniflow.client import Client
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.stage import Stage, open_stage

# A scheduler that was killed has to start again meanwhile.
CONNECT_S = 20.0


@pytest.fixture
async def client(cluster: PuppetCluster) -> AsyncIterator[Client]:
    """Connected to the cluster, in which everything is well; told the addresses of all its schedulers."""
    async with Client(cluster.state.address, connect_timeout=CONNECT_S) as connected:
        await cluster.until_settled(connected)
        yield connected


@pytest.fixture
async def stage(cluster: PuppetCluster) -> AsyncIterator[Stage]:
    async with open_stage(cluster.stage) as opened:
        yield opened
