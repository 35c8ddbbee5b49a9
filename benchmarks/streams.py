"""Frames from role to role to role, and from a role to a client: one stream alone, and many at once.

A rate is frames over the time from the first one to the end, at the sink role or at the client. Of many streams: all
frames over the time from the first frame of any to the end of the last; and how long after the first stream the last
one ended, as a part of the whole: a job that starves ends long after the others.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass

import uvloop
from clusters import RunningCluster, running
from rows import Row, alone, show

from omniflow.bench.cpu import client_seconds, cluster_seconds, spent
from omniflow.client import Client, Job

TOGETHER = 64
RESULTS_TOGETHER = 16
FRAMES_PER_SECOND = 100_000.0


def arguments() -> argparse.Namespace:
    """How much to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each; the median counts")
    parser.add_argument("--frames", type=int, default=10_000, help="frames of a stream")
    return parser.parse_args()


@dataclass(frozen=True)
class Measured:
    """Frames a second, CPU microseconds a frame and hop, and when streams ended: the last one at 1."""

    rate: float
    cpu_us: float
    ends: list[float]


async def measure(cluster: RunningCluster, streams: int, frames: int) -> Measured:
    """`streams` jobs at once."""
    before, own = cluster_seconds(cluster.state), client_seconds()
    async with Client(cluster.state.address) as client:
        jobs = [await client.submit("two_hops", {"start": "go"}, parameters={"count": frames}) for _ in range(streams)]
        counted = [(await job.result())["result"].split() for job in jobs]
    seconds = spent(before, cluster_seconds(cluster.state))
    cpu = client_seconds() - own + sum(each for each in seconds.values() if each is not None)
    if any(int(count) != frames for count, _, _ in counted):
        raise RuntimeError(f"frames are missing: {[int(count) for count, _, _ in counted]} of {frames} each")
    first = min(float(first) for _, first, _ in counted)
    ends = [float(last) - first for _, _, last in counted]
    whole = max(ends)
    total = streams * frames
    return Measured(total / whole, cpu / total / 2 * 1e6, [end / whole for end in ends])


def rows_of(cluster: RunningCluster, streams: int, repeats: int, frames: int) -> list[Row]:
    """The rows of one number of streams."""
    found = [uvloop.run(measure(cluster, streams, frames)) for _ in range(repeats)]
    work = f"{streams} stream{'s' if streams > 1 else ''} of {frames:,} frames of 256 B over two hops"
    rows = [
        alone(work, statistics.median(each.rate for each in found), "frames/s", at_least=FRAMES_PER_SECOND),
        alone(work, statistics.median(each.cpu_us for each in found), "CPU µs a frame and hop"),
    ]
    if streams > 1:
        earliest = statistics.median(min(each.ends) for each in found)
        rows.append(alone(f"{work}: the first of them ended at", earliest, "of the whole time", at_least=0.5))
    return rows


async def measure_results(cluster: RunningCluster, streams: int, frames: int) -> tuple[float, float]:
    """Frames a second and CPU microseconds a frame, of `streams` jobs at once whose client reads all as they come."""
    before, own = cluster_seconds(cluster.state), client_seconds()
    async with Client(cluster.state.address) as client:
        jobs = [await client.submit("to_client", {"start": "go"}, parameters={"count": frames}) for _ in range(streams)]
        times = await asyncio.gather(*(read(job, frames) for job in jobs))
    seconds = spent(before, cluster_seconds(cluster.state))
    cpu = client_seconds() - own + sum(each for each in seconds.values() if each is not None)
    total = streams * frames
    whole = max(last for _, last in times) - min(first for first, _ in times)
    return total / whole, cpu / total * 1e6


async def read(job: Job, frames: int) -> tuple[float, float]:
    """When its first frame came and when its last."""
    count, first = 0, 0.0
    async for _ in job:
        first = first or time.monotonic()
        count += 1
    if count != frames:
        raise RuntimeError(f"frames are missing: {count} of {frames}")
    return first, time.monotonic()


def result_rows(cluster: RunningCluster, streams: int, repeats: int, frames: int) -> list[Row]:
    """The rows of one number of results that are streams."""
    found = [uvloop.run(measure_results(cluster, streams, frames)) for _ in range(repeats)]
    work = f"{streams} stream{'s' if streams > 1 else ''} of {frames:,} frames of 256 B to a client"
    return [
        alone(work, statistics.median(rate for rate, _ in found), "frames/s"),
        alone(work, statistics.median(cpu for _, cpu in found), "CPU µs a frame"),
    ]


def main() -> None:
    """Prints the rows."""
    given = arguments()
    rows: list[Row] = []
    with running("benchmarks/streams/cluster.yaml") as cluster:
        uvloop.run(measure(cluster, 1, given.frames))
        for streams in (1, TOGETHER):
            rows += rows_of(cluster, streams, given.repeats, given.frames)
        uvloop.run(measure_results(cluster, 1, given.frames))
        for streams in (1, RESULTS_TOGETHER):
            rows += result_rows(cluster, streams, given.repeats, given.frames)
    show(rows)


if __name__ == "__main__":
    main()
