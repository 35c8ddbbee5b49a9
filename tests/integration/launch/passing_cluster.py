"""Has a cluster for a while: `passing_cluster.py CLUSTER.yaml` prints its address, ends with standard input."""

import asyncio
import sys
from pathlib import Path

import typer

from omniflow.cli.consoles import ConsoleObserver
from omniflow.cli.failures import reports_failures
from omniflow.cli.for_a_while import cluster_for_a_while
from omniflow.config import load_cluster


async def until_told(address: str) -> None:
    """In a loop, as commands wait for their jobs."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(address, flush=True)
    await reader.read()


def main(cluster: Path) -> None:
    with cluster_for_a_while(load_cluster(cluster), ConsoleObserver()) as state:
        asyncio.run(until_told(state.address))


if __name__ == "__main__":
    app = typer.Typer()
    app.command()(reports_failures(main))
    app()
