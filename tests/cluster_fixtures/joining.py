"""Workers that join while jobs run, and whoever plays on."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.stage import Stage


@asynccontextmanager
async def another_worker(cluster: PuppetCluster, like: str, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that serves what another one does; killed at the end, if it still runs."""
    settings = json.loads((cluster.run / "config" / f"{like}.json").read_text())
    file = cluster.run / "config" / f"{name}.json"
    file.write_text(json.dumps({**settings, "name": name, "listen": ["tcp:127.0.0.1:0"]}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "omniflow_workers", "--config", str(file), stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def let_go(stage: Stage) -> None:
    """Whoever reports goes on at once."""
    while True:
        (await stage.act()).go_on()
