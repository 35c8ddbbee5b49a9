"""Where the time of a job goes that computes nothing: CPU of each thread of each process, and how often each one slept.

Threads are named by their process and by the name that they gave themselves. A thread that sleeps and is
woken again costs some microseconds each time, its waker too: the second column tells how well work is done in batches.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop
from clusters import RunningCluster, running
from control_plane import IN_FLIGHT, measure
from rows import Row, alone, show

TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


def arguments() -> argparse.Namespace:
    """How much to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs of the loop: a thread's time is read in ticks")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="jobs at once")
    return parser.parse_args()


@dataclass(frozen=True)
class Spent:
    """CPU microseconds, and how often it went to sleep."""

    cpu_us: float = 0.0
    sleeps: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.cpu_us + other.cpu_us, self.sleeps + other.sleeps)

    def since(self, earlier: "Spent") -> "Spent":
        """What came on top."""
        return Spent(self.cpu_us - earlier.cpu_us, self.sleeps - earlier.sleeps)


def snapshot(cluster: RunningCluster) -> dict[tuple[str, str], Spent]:
    """By process and thread name; threads of one name together."""
    found: dict[tuple[str, str], Spent] = defaultdict(Spent)
    processes = {"client": os.getpid()} | {
        each.name: each.process.pid for each in cluster.state.processes if each.process is not None
    }
    for process, pid in processes.items():
        for name, spent in _threads(pid):
            found[process, name] += spent
    return found


def _threads(pid: int) -> Iterator[tuple[str, Spent]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, stat, status = ((task / each).read_text() for each in ("comm", "stat", "status"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended meanwhile.
        user, system = stat.rpartition(")")[2].split()[11:13]
        switches = dict(line.split(":", 1) for line in status.splitlines())["voluntary_ctxt_switches"]
        yield name.strip(), Spent((int(user) + int(system)) * TICK_US, int(switches))


def main() -> None:
    """Prints the rows, the most expensive thread first."""
    given = arguments()
    with running("examples/trivial/cluster.yaml") as cluster:
        uvloop.run(measure(cluster, given.jobs // 10, given.in_flight))
        before = snapshot(cluster)
        figures = uvloop.run(measure(cluster, given.jobs, given.in_flight))
        spent = {at: after.since(before.get(at, Spent())) for at, after in snapshot(cluster).items()}
    rows: list[Row] = [alone(f"{given.in_flight} in flight", figures["per_second"], "jobs/s")]
    for (process, thread), each in sorted(spent.items(), key=lambda item: -item[1].cpu_us):
        if each.cpu_us / given.jobs >= 1:
            rows.append(alone(f"{process}: {thread}", each.cpu_us / given.jobs, "CPU µs a job"))
            rows.append(alone(f"{process}: {thread}", each.sleeps / given.jobs, "sleeps a job"))
    show(rows)


if __name__ == "__main__":
    main()
