"""A worker whose Python is held in stretches of 20 ms, as an engine may: what do the others, and its own links, notice?

Jobs of one frame go past it from the first worker to the third, before and while it is held, and through the worker
itself, whose role runs only when Python is free: the difference between the two is what one activation waits for it.
"""

import argparse
import statistics
import time

import uvloop
from clusters import RunningCluster, running
from rows import Row, alone, compared, show

from omniflow.bench.run import Load, run_load
from omniflow.client import Client

JOBS = 400
HELD_SECONDS = 8.0


def arguments() -> argparse.Namespace:
    """How much to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="alternating measurements, free and held")
    return parser.parse_args()


async def latencies(client: Client, cluster: RunningCluster, flow: str) -> dict[str, float]:
    """Of jobs of one frame, one at a time."""
    jobs = JOBS if flow == "one_hop" else JOBS // 10
    load = Load(flow=flow, inputs={"start": "go"}, jobs=jobs, parameters={"count": 1})
    figures = (await run_load(client, load, cluster.state, lambda: None, lambda _: None)).figures
    if figures["failed"]:
        raise RuntimeError(f"jobs failed: {figures}")
    return {name: float(figures[f"{name}_e2el_ms"] or 0) for name in ("median", "p99")}


async def measure(cluster: RunningCluster, pairs: int) -> list[Row]:
    """Alternates between free and held."""
    free: list[dict[str, float]] = []
    held: list[dict[str, float]] = []
    through: list[float] = []
    async with Client(cluster.state.address) as client:
        await latencies(client, cluster, "one_hop")
        began = time.monotonic()
        for _ in range(pairs):
            free.append(await latencies(client, cluster, "one_hop"))
            holding = await client.submit("held", {"start": "go"}, parameters={"seconds": HELD_SECONDS})
            held.append(await latencies(client, cluster, "one_hop"))
            through.append((await latencies(client, cluster, "two_hops"))["median"])
            await holding.result()
        since_ms = (time.monotonic() - began) * 1e3
        again = [worker for worker in await client.workers() if worker.connected_ms < since_ms]
    work = "one frame past a worker whose Python is held, against one whose is free"
    rows = [
        compared(
            work, [each[name] for each in held], [each[name] for each in free], unit, at_least=0.9, less_is_better=True
        )
        for name, unit in (("median", "ms p50"), ("p99", "ms p99"))
    ]
    rows.append(alone("one frame through it", statistics.median(through), "ms p50"))
    rows.append(alone("workers whose link was lost meanwhile", float(len(again)), "workers", at_most=0))
    return rows


def main() -> None:
    """Prints the rows."""
    given = arguments()
    with running("benchmarks/streams/cluster.yaml") as cluster:
        show(uvloop.run(measure(cluster, given.pairs)))


if __name__ == "__main__":
    main()
