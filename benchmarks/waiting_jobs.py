"""Many jobs in one scheduler: what one costs that only waits, and what the others notice of them.

The jobs wait in the queue of a role that is busy. Memory is the scheduler's resident size before and after; the rate is
that of the three trivial roles, 16 in flight, without and with them.
"""

import argparse
import asyncio

import psutil
import uvloop
from clusters import RunningCluster, running
from control_plane import IN_FLIGHT, measure
from rows import Row, alone, compared, show

from omniflow.client import Client

JOB_BYTES = 4096
AT_LEAST = 0.8
AT_ONCE = 512


def arguments() -> argparse.Namespace:
    """How much to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=90_000, help="jobs that wait (the queue takes 100,000)")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs of one measured loop")
    parser.add_argument("--pairs", type=int, default=5, help="measured loops, without and with the waiting jobs")
    return parser.parse_args()


def scheduler_bytes(cluster: RunningCluster) -> int:
    """Resident memory of the scheduler."""
    [scheduler] = [each for each in cluster.state.processes if each.kind.value == "scheduler"]
    assert scheduler.process is not None
    size: int = psutil.Process(scheduler.process.pid).memory_info().rss
    return size


async def submit_waiting(client: Client, count: int) -> None:
    """Jobs whose role is busy until the cluster stops."""
    await client.submit("held", {"start": "go"}, detach=True, deadline=3600.0)
    for done in range(0, count, AT_ONCE):
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, count - done)):
                group.create_task(client.submit("held", {"start": "go"}, detach=True, deadline=3600.0))


def main() -> None:
    """Prints the rows."""
    given = arguments()
    rows: list[Row] = []
    with running("benchmarks/waiting/cluster.yaml") as cluster:
        uvloop.run(measure(cluster, given.jobs, IN_FLIGHT))
        without = [uvloop.run(measure(cluster, given.jobs, IN_FLIGHT))["per_second"] for _ in range(given.pairs)]
        before = scheduler_bytes(cluster)

        async def fill() -> None:
            async with Client(cluster.state.address) as client:
                await submit_waiting(client, given.waiting)

        uvloop.run(fill())
        each = (scheduler_bytes(cluster) - before) / given.waiting
        rows.append(alone(f"{given.waiting:,} jobs that wait", each, "bytes a job in the scheduler", at_most=JOB_BYTES))
        beside = [uvloop.run(measure(cluster, given.jobs, IN_FLIGHT))["per_second"] for _ in range(given.pairs)]
        rows.append(
            compared(f"16 in flight beside {given.waiting:,} that wait", beside, without, "jobs/s", at_least=AT_LEAST)
        )
    show(rows)


if __name__ == "__main__":
    main()
