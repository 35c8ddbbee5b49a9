"""What a cluster costs that does nothing (etcd, scheduler, three workers), and how long it takes to be ready."""

import argparse
import time

from clusters import running
from rows import alone, show

from omniflow.bench.cpu import cluster_seconds, spent


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to look")
    parser.add_argument("--cluster", default="examples/trivial/cluster.yaml", help="which one, from the repository")
    given = parser.parse_args()
    with running(given.cluster) as cluster:
        time.sleep(3.0)  # what starting leaves behind is not idling
        before = cluster_seconds(cluster.state)
        time.sleep(given.seconds)
        used = spent(before, cluster_seconds(cluster.state))
    percent = {kind: 100 * (seconds or 0.0) / given.seconds for kind, seconds in used.items()}
    show(
        [
            alone("idle cluster", sum(percent.values()), "% of a core", at_most=3.0),
            *(alone(f"idle {kind}", value, "% of a core") for kind, value in percent.items()),
            alone(f"ready: {given.cluster}", cluster.ready_seconds, "s", at_most=20.0),
        ]
    )


if __name__ == "__main__":
    main()
