"""A scheduler whose answers the test writes."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.client.scripted_scheduler import ScriptedScheduler, scripted_scheduler


@pytest.fixture
async def scheduler() -> AsyncIterator[ScriptedScheduler]:
    async with scripted_scheduler() as running:
        yield running
