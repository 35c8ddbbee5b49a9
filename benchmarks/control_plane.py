"""What a job costs that computes nothing: three roles in three workers, 1 KiB, submitted through gRPC.

Beside it, in alternating runs, the three-process pipelines of SGLang-Omni and M*, whose clients stand inside the
server and whose payload never crosses a network edge.
"""

import argparse
import asyncio
from contextlib import ExitStack

from clusters import RunningCluster, running
from peer_process import Peer, mstar, sglang_omni
from rows import Row, alone, compared, show

from omniflow.bench.run import Load, run_load
from omniflow.client import Client

PAYLOAD_BYTES = 1024
IN_FLIGHT = 16
AT_LEAST = 3.0


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="alternating measurements of ours and of each peer")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs a measurement (peers: a quarter)")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    return parser.parse_args()


async def measure(cluster: RunningCluster, jobs: int, in_flight: int) -> dict[str, float]:
    """One closed loop of ours."""
    load = Load(
        flow="trivial", inputs={"payload": "x" * PAYLOAD_BYTES}, concurrency=in_flight, jobs=jobs, warm_up=in_flight
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


def compare(cluster: RunningCluster, peer: Peer, pairs: int, jobs: int, in_flight: int) -> list[Row]:
    """Rows against one peer."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    peer.order(requests=50, in_flight=in_flight, bytes=PAYLOAD_BYTES)
    for _ in range(pairs):
        ours.append(asyncio.run(measure(cluster, jobs, in_flight)))
        theirs.append(peer.order(requests=jobs // 4, in_flight=in_flight, bytes=PAYLOAD_BYTES))
    work = f"3 roles, 3 processes, 1 KiB, {in_flight} in flight, beside {peer.name}"
    rows = []
    for figure, unit, at_least in (
        ("per_second", "jobs/s", AT_LEAST),
        ("cpu_ms", "CPU ms/job", AT_LEAST),
        ("p50_ms", "ms p50", 1.0),
    ):
        rows.append(
            compared(
                work,
                [each[figure] for each in ours],
                [each[figure] for each in theirs],
                unit,
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
        asyncio.run(measure(cluster, given.jobs, IN_FLIGHT))
        for in_flight in (IN_FLIGHT, 1):
            jobs = given.jobs if in_flight > 1 else given.jobs // 4
            peers = [] if given.no_peers else [sglang_omni(), mstar()]
            for peer in peers:
                if peer.missing:
                    one = asyncio.run(measure(cluster, jobs, in_flight))
                    rows.append(alone(f"3 roles, {in_flight} in flight", one["per_second"], "jobs/s", why=peer.missing))
                    continue
                with ExitStack() as stack:
                    rows += compare(cluster, stack.enter_context(peer), given.pairs, jobs, in_flight)
            if not peers:
                one = asyncio.run(measure(cluster, jobs, in_flight))
                rows += [alone(f"3 roles, {in_flight} in flight", value, name) for name, value in one.items()]
    show(rows)


if __name__ == "__main__":
    main()
