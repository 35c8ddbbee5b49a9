"""A tensor from one role process to the next: 32 MiB and others, beside SGLang-Omni's stages; what a hop consists of.

A hop is what a job takes, less what it takes with one byte, by the hops in it. It is measured twice: of a tensor that
its maker writes where the next role reads it (one hop), and of one that is made elsewhere, as the peer's is, copied to
where the next role reads it, and passed on by that one, which copies it again (two hops).

The handing over alone is measured from the sender's side: the time from when it had sent a tensor until the next role
had it as an array. The next role may have it before its sender goes on, so that this can be less than nothing.
"""

import argparse
import itertools
import statistics
import sys
from contextlib import ExitStack

import numpy as np
import uvloop
from clusters import RunningCluster, running
from peer_process import Peer, sglang_omni
from rows import Row, alone, compared, show

from omniflow.bench.run import Load, run_load
from omniflow.client import Client

MIB = 1 << 20
SIZES = (1 * MIB, 32 * MIB, 128 * MIB - 4096)
"""The last is the largest that fits a frame of 128 MiB."""
COMPARED = 32 * MIB
AT_LEAST = 20.0
HOPS = {"one_hop": 1, "two_hops": 2}
MADE = {"one_hop": "written in place", "two_hops": "made elsewhere and copied"}
PEER_HOPS = 2
HANDED_OVER_BYTES = 512 * MIB
"""In one job at most, and so little that none waits for room: a job keeps what it sends until its reader has ended."""
HANDED_OVER = 20
WITHIN_US = 1_000.0


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7, help="alternating measurements of ours and of the peer")
    parser.add_argument("--jobs", type=int, default=20, help="jobs a measurement (the peer: half)")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    return parser.parse_args()


async def measure(cluster: RunningCluster, flow: str, size: int, jobs: int) -> dict[str, float]:
    """One job after another."""
    load = Load(flow=flow, inputs={"size": str(size)}, concurrency=1, rate=None, jobs=jobs, warm_up=2)
    async with Client(cluster.state.address) as client:
        outcome = await run_load(client, load, cluster.state, lambda: None, lambda _: None)
    figures = outcome.figures
    if figures["failed"]:
        raise RuntimeError(f"jobs failed: {figures}")
    return {"p50_ms": float(figures["median_e2el_ms"] or 0), "cpu_ms": float(figures["cpu_ms_per_job"] or 0)}


def hop(with_bytes: dict[str, float], without: dict[str, float], hops: int) -> dict[str, float]:
    """Of one hop, by figure."""
    return {figure: (with_bytes[figure] - without[figure]) / hops for figure in ("p50_ms", "cpu_ms")}


def ours(cluster: RunningCluster, flow: str, size: int, jobs: int) -> dict[str, float]:
    """A hop of ours."""
    with_bytes, without = (uvloop.run(measure(cluster, flow, each, jobs)) for each in (size, 1))
    return hop(with_bytes, without, HOPS[flow])


def theirs(peer: Peer, size: int, jobs: int) -> dict[str, float]:
    """A hop of the peer."""
    orders = [peer.order(requests=jobs, in_flight=1, bytes=each) for each in (size, 1)]
    return hop(orders[0], orders[1], PEER_HOPS)


def name_of(flow: str, size: int) -> str:
    """What is measured."""
    return f"{size / MIB:.0f} MiB tensor {MADE[flow]}, a hop"


def beside(cluster: RunningCluster, peer: Peer, pairs: int, jobs: int) -> list[Row]:
    """Rows against the peer."""
    ours_found: dict[str, list[dict[str, float]]] = {flow: [] for flow in HOPS}
    theirs_found = []
    theirs(peer, COMPARED, 2)
    for _ in range(pairs):
        for flow, found in ours_found.items():
            found.append(ours(cluster, flow, COMPARED, jobs))
        theirs_found.append(theirs(peer, COMPARED, jobs // 2))
    return [
        compared(
            f"{name_of(flow, COMPARED)}, beside {peer.name}",
            [each[figure] for each in found],
            [each[figure] for each in theirs_found],
            unit,
            at_least=at_least if flow == "one_hop" else 1.0,
            less_is_better=True,
        )
        for flow, found in ours_found.items()
        for figure, unit, at_least in (("p50_ms", "ms", AT_LEAST), ("cpu_ms", "CPU ms", 1.0))
    ]


async def handed_over(cluster: RunningCluster, size: int) -> tuple[float, float]:
    """Milliseconds of writing, and microseconds of handing over: medians."""
    async with Client(cluster.state.address) as client:
        job = await client.submit(
            "handed_over", {"size": str(size)}, parameters={"count": min(HANDED_OVER, HANDED_OVER_BYTES // size)}
        )
        times = (await job.result())["result"].array()
    write, hand = np.median(times, axis=0)
    return float(write) * 1e3, float(hand) * 1e6


def parts(cluster: RunningCluster, repeats: int) -> list[Row]:
    """What a hop consists of, by size."""
    rows = []
    for size in SIZES:
        found = [uvloop.run(handed_over(cluster, size)) for _ in range(repeats)]
        write, hand = (statistics.median(each) for each in zip(*found, strict=True))
        rows.append(alone(f"{size / MIB:.0f} MiB tensor: written and sent", write, "ms"))
        rows.append(
            alone(f"{size / MIB:.0f} MiB tensor: from sent to in the next role's hands", hand, "µs", at_most=WITHIN_US)
        )
    return rows


def main() -> None:
    """Prints the rows."""
    given = arguments()
    rows: list[Row] = []
    with running("benchmarks/tensors/cluster.yaml") as cluster:
        for size, flow in itertools.product(SIZES, HOPS):
            ours(cluster, flow, size, 3)
        peer = sglang_omni()
        if not given.no_peers and peer.missing:
            print(f"sglang-omni: {peer.missing}", file=sys.stderr)
        if not given.no_peers and not peer.missing:
            with ExitStack() as stack:
                rows += beside(cluster, stack.enter_context(peer), given.pairs, given.jobs)
        for flow, size in itertools.product(HOPS, SIZES):
            found = [ours(cluster, flow, size, given.jobs) for _ in range(given.pairs)]
            for figure, unit in (("p50_ms", "ms"), ("cpu_ms", "CPU ms")):
                rows.append(alone(name_of(flow, size), statistics.median(each[figure] for each in found), unit))
        rows += parts(cluster, given.pairs)
    show(rows)


if __name__ == "__main__":
    main()
