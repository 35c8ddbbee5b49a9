"""Workers that join while jobs run, and whoever plays on."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from omniflow.flow import collect, each, flow, use
from omniflow.types import Text
from tests.cluster_fixtures.cluster import LIMITS, PuppetCluster, write_cluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage

# A worker's process has to start in mid-run, on a machine that may be busy.
DEADLINE_S = 110.0
# How many a puppet runs at a time.
AT_ONCE = 4

first = use(Puppet, "first")
second = use(Puppet, "second")
third = use(Puppet, "third")


@flow
def held_words(text: Text) -> Text:
    """Each word is held until the test lets it go."""
    return third.join(collect(second.hold(word) for word in each(first.words(text))))


def words(count: int) -> str:
    return " ".join(f"word{number}" for number in range(count))


def write_early_cluster(folder: Path, **limits: float) -> PuppetCluster:
    """Of what `held_words` needs: one worker, `early`, holds the words, until others join."""
    workers = [{"name": "ends", "roles": ["first", "third"]}, {"name": "early", "roles": ["second"]}]
    return write_cluster(folder, workers, {**LIMITS, "max_deadline_s": DEADLINE_S, **limits})


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
