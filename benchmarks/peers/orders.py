"""What every peer's script shares: orders on standard input, a measured row for each on standard output."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Order:
    """One measurement: `requests` requests of `bytes` each, `in_flight` at a time."""

    requests: int
    in_flight: int
    bytes: int


# Runs an order and returns the latency of each request in seconds. Raises when an answer is wrong.
Run = Callable[[Order], list[float]]


def cpu_seconds() -> float:
    """User and system time of this process and of everything below it."""
    me = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in [me, *me.children(recursive=True)])


def measure(run: Run, order: Order) -> dict[str, float]:
    """Times one order."""
    cpu, start = cpu_seconds(), time.perf_counter()
    latencies = sorted(run(order))
    wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    if len(latencies) != order.requests:
        raise RuntimeError(f"{len(latencies)} answers to {order.requests} requests")
    return {
        "per_second": order.requests / wall,
        "p50_ms": latencies[len(latencies) // 2] * 1e3,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1e3,
        "cpu_ms": cpu / order.requests * 1e3,
    }


def take_orders(name: str, run: Run) -> None:
    """Answers orders until standard input ends."""
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(run, Order(**json.loads(line)))), flush=True)
