"""Memory of one and two `llm` workers of a real cluster, and how long weights take to load, cold and warm.

Cold: the cache is empty, so the model (SmolLM2, 135 M parameters) is converted from GGUF. First: converted, and read
once to see that it is whole. Warm: known to be whole. Beside processes that have it by Hugging Face `from_pretrained`.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from clusters import RunningCluster, running
from peer_process import hugging_face
from rows import Row, alone, compared, show

from omniflow.bench.memory import Memory, mapped_file, memory_of
from omniflow.config import load_cluster
from omniflow_workers.weights.source import locate

MODEL = "smollm2-135m-instruct"
FILE = "benchmarks/weights/cluster.yaml"
WEIGHTS = "model.safetensors"
ROOT = Path(__file__).resolve().parents[1]
MEBIBYTE = 1 << 20
ONE_MODEL = 1.1  # of the weights' bytes, for all workers of a host together
LOADED = re.compile(r"role llm loaded in ([\d.]+) s")


@dataclass(frozen=True)
class Measured:
    """Workers of a cluster that is ready: whole processes, what of them is weights, seconds until each had loaded."""

    whole: list[Memory]
    weights: list[Memory]
    seconds: list[float]

    @property
    def share(self) -> float:
        return sum(each.share for each in self.whole) / MEBIBYTE

    @property
    def weights_share(self) -> float:
        return sum(each.share for each in self.weights) / MEBIBYTE


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    return parser.parse_args()


@contextmanager
def workers(count: int, cache: Path) -> Iterator[RunningCluster]:
    """A cluster with so many llm workers."""
    config = load_cluster(ROOT / FILE)
    with running(FILE, cache=cache, workers=config.workers[:count], start_timeout_s=600.0) as cluster:
        yield cluster


def measure(count: int, cache: Path) -> Measured:
    """Starts them, looks, and ends them."""
    with workers(count, cache) as cluster:
        found = [each for each in cluster.state.processes if each.kind.value == "worker" and each.process is not None]
        pids = [each.process.pid for each in found if each.process is not None]
        seconds = [float(said[1]) for each in found if (said := LOADED.search(each.log.read_text()))]
        return Measured([memory_of(pid) for pid in pids], [mapped_file(pid, WEIGHTS) for pid in pids], seconds)


def peers_share(count: int) -> float:
    """MiB of so many processes that have the model by `from_pretrained`."""
    with ExitStack() as stack:
        started = [stack.enter_context(hugging_face(locate(MODEL).path)) for _ in range(count)]
        return sum(memory_of(each.pid).share for each in started) / MEBIBYTE


def memory_rows(one: Measured, two: Measured, *, peers: bool) -> list[Row]:
    """What a second worker of a host costs."""
    size = one.weights[0].resident / MEBIBYTE
    own = max(each.own for each in two.weights) / MEBIBYTE
    rows = [
        alone("weights of a model, as mapped", size, "MiB"),
        alone("weights of 2 llm workers together, in models", two.weights_share / size, "models", at_most=ONE_MODEL),
        alone("weights that a worker has for itself", own, "MiB", at_most=0.0),
        alone("a second llm worker, all of it", two.share - one.share, "MiB", why="libraries, tokenizer, KV pool"),
    ]
    for count, ours in ((1, one.share), (2, two.share)):
        name = f"proportional set size of {count} llm worker{'s' if count > 1 else ''}"
        if peers:
            theirs = [peers_share(count)]
            rows.append(
                compared(f"{name}, beside from_pretrained", [ours], theirs, "MiB", at_least=1.0, less_is_better=True)
            )
        else:
            rows.append(alone(name, ours, "MiB", why="peer left out"))
    return rows


def main() -> None:
    """Prints the rows."""
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="omniflow-bench-") as folder:
        cold, first, one = (measure(1, Path(folder)) for _ in range(3))
        two = measure(2, Path(folder))
    times = {"cold: converted from GGUF": cold, "first: read once, mapped": first, "warm: mapped": one}
    rows = [alone(f"llm role loaded, {how}", each.seconds[0], "s") for how, each in times.items()]
    rows.append(alone("llm role loaded, warm, 2 workers at once", max(two.seconds), "s"))
    kept = cold.share - one.share
    rows.append(alone("what a worker keeps of having converted", kept, "MiB", at_most=32.0))
    show(rows + memory_rows(one, two, peers=not given.no_peers))


if __name__ == "__main__":
    main()
