"""What a job costs that computes nothing: three roles in three workers, 1 KiB, submitted through gRPC.

Beside it, in alternating runs, the three-process pipelines of SGLang-Omni and M*, whose clients stand inside the
server and whose payload never crosses a network edge.
"""

import argparse
import statistics
import sys
from contextlib import ExitStack

import uvloop
from clusters import RunningCluster, running
from peer_process import Peer, mstar, sglang_omni
from rows import Row, alone, compared, show

from omniflow.bench.run import Load, run_load
from omniflow.client import Client

PAYLOAD_BYTES = 1024
IN_FLIGHT = 16
AT_LEAST = 10.0
POISSON_RATE = 1500.0
"""Jobs a second of the open loop, whose times count from when a job was due."""
POISSON_REACH = {"p50_ms": 3.0, "p99_ms": 15.0, "cpu_ms": 0.9}
ALONE_P50_MS = 2.5
UNITS = {"per_second": "jobs/s", "p50_ms": "ms p50", "p99_ms": "ms p99", "cpu_ms": "CPU ms/job"}


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="alternating measurements of ours and of each peer")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs a measurement (peers: a quarter)")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    return parser.parse_args()


async def measure(
    cluster: RunningCluster, jobs: int, in_flight: int = 1, rate: float | None = None
) -> dict[str, float]:
    """One loop of ours: closed, with `in_flight` at a time, or open at `rate` a second."""
    load = Load(
        flow="trivial",
        inputs={"payload": "x" * PAYLOAD_BYTES},
        concurrency=in_flight,
        rate=rate,
        jobs=jobs,
        warm_up=IN_FLIGHT,
    )
    async with Client(cluster.state.address) as client:
        outcome = await run_load(client, load, cluster.state, lambda: None, lambda _: None)
    figures = outcome.figures
    if figures["failed"]:
        raise RuntimeError(f"jobs failed: {figures}")
    return {
        "per_second": float(figures["request_throughput"] or 0),
        "p50_ms": float(figures["median_e2el_ms"] or 0),
        "p99_ms": float(figures["p99_e2el_ms"] or 0),
        "cpu_ms": float(figures["cpu_ms_per_job"] or 0),
    }


def ours_alone(cluster: RunningCluster, repeats: int, jobs: int, in_flight: int) -> list[Row]:
    """Rows without a peer."""
    found = [uvloop.run(measure(cluster, jobs, in_flight)) for _ in range(repeats)]
    work = f"3 roles, 3 processes, 1 KiB, {in_flight} in flight"
    reach = {"p50_ms": ALONE_P50_MS} if in_flight == 1 else {}
    return [
        alone(work, statistics.median(each[figure] for each in found), unit, at_most=reach.get(figure))
        for figure, unit in UNITS.items()
    ]


def open_loop(cluster: RunningCluster, repeats: int, jobs: int) -> list[Row]:
    """Rows of jobs that arrive by themselves."""
    found = [uvloop.run(measure(cluster, jobs, rate=POISSON_RATE)) for _ in range(repeats)]
    work = f"3 roles, 3 processes, 1 KiB, Poisson arrivals at {POISSON_RATE:,.0f} jobs/s"
    return [
        alone(work, statistics.median(each[figure] for each in found), UNITS[figure], at_most=reach)
        for figure, reach in POISSON_REACH.items()
    ]


def compare(cluster: RunningCluster, peer: Peer, pairs: int, jobs: int, in_flight: int) -> list[Row]:
    """Rows against one peer."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    peer.order(requests=50, in_flight=in_flight, bytes=PAYLOAD_BYTES)
    for _ in range(pairs):
        ours.append(uvloop.run(measure(cluster, jobs, in_flight)))
        theirs.append(peer.order(requests=jobs // 4, in_flight=in_flight, bytes=PAYLOAD_BYTES))
    work = f"3 roles, 3 processes, 1 KiB, {in_flight} in flight, beside {peer.name}"
    rows = []
    for figure, at_least in (("per_second", AT_LEAST), ("cpu_ms", AT_LEAST), ("p50_ms", 1.0)):
        rows.append(
            compared(
                work,
                [each[figure] for each in ours],
                [each[figure] for each in theirs],
                UNITS[figure],
                at_least=at_least if in_flight == IN_FLIGHT else 1.0,
                less_is_better=figure != "per_second",
            )
        )
    return rows


def main() -> None:
    """Prints the rows."""
    given = arguments()
    rows: list[Row] = []
    with running("examples/trivial/cluster.yaml") as cluster:
        uvloop.run(measure(cluster, given.jobs, IN_FLIGHT))
        for in_flight in (IN_FLIGHT, 1):
            jobs = given.jobs if in_flight > 1 else given.jobs // 4
            peers = [] if given.no_peers else [sglang_omni(), mstar()]
            for peer in peers:
                if peer.missing:
                    print(f"{peer.name or peer.python}: {peer.missing}", file=sys.stderr)
                    continue
                with ExitStack() as stack:
                    rows += compare(cluster, stack.enter_context(peer), given.pairs, jobs, in_flight)
            rows += ours_alone(cluster, given.pairs, jobs, in_flight)
        rows += open_loop(cluster, given.pairs, given.jobs)
    show(rows)


if __name__ == "__main__":
    main()
