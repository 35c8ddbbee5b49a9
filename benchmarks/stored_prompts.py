"""Time to the first token of a prompt whose pages are on disk, beside computing it; and what it costs to store them.

Prompts are random words, new for each pair. The pool has forgotten the prompt when it is asked for again. The file is
read past the system's cache where the file system allows that.
"""

import argparse
import random
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rows import Row, alone, compared, show

from omniflow.roles import RoleContext
from omniflow.roles.memory import MemoryQueue
from omniflow.v1.data_pb2 import MemoryAccount, PoolAccount
from omniflow_workers.roles.llm import Llm
from omniflow_workers.transfer import Borrowed, PagePool

WORDS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kid", "lark", "mole", "newt", "owl")
FILE_BYTES = 4 << 30


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7, help="prompts, each computed and then read")
    parser.add_argument("--tokens", type=int, default=1000, help="of a prompt, about")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads of the engine")
    parser.add_argument(
        "--folder", type=Path, default=None, help="on the disk to be measured; a temporary one if not said"
    )
    return parser.parse_args()


class Nobody:
    """There are no other workers."""

    def share(self, pool: PagePool) -> None:
        """Nobody reads there."""

    def workers(self, model: str, layout: str) -> list[str]:
        return []

    def acquire(self, *asked: object, **how: object) -> Borrowed | None:
        return None

    best = acquire

    def account(self, into: MemoryAccount) -> None:
        """Nothing to say."""


class Asking:
    """A role that serves in a thread of this process, with weights of the usual cache and pages in `folder`."""

    def __init__(self, folder: Path, threads: int, disk: int) -> None:
        self.role = Llm()
        cache = RoleContext().cache
        (folder / "weights").symlink_to(cache / "weights") if not (folder / "weights").exists() else None
        options = {"threads": threads, "kv_disk_bytes": disk}
        self.role.load(RoleContext(worker=f"bench-{disk}", options=options, cache=folder))
        self.role.meet(Nobody())
        self.queue = MemoryQueue(Llm)
        self._thread = threading.Thread(target=self.role.serve, args=(self.queue.typed,))
        self._thread.start()

    def first_token(self, question: str) -> tuple[float, dict[str, float], str]:
        """Milliseconds, what it took, and what it says."""
        started = time.perf_counter()
        asked = self.queue.put("chat", question=question, max_tokens=1, min_tokens=1)
        asked.wait(600)
        took = (time.perf_counter() - started) * 1000
        return took, dict(asked.features), "".join(asked.results())

    def pool(self) -> PoolAccount:
        account = MemoryAccount()
        self.role.account(account)
        return account.pools[0]

    def forget(self) -> None:
        """What is to be written is, and the pool is empty."""
        while self.pool().stored.waiting_now:
            time.sleep(0.001)
        self.role.page_source.index.evict(1 << 30)

    def close(self) -> None:
        self.queue.close()
        self._thread.join()
        self.role.unload()


def words_of(tokens: int, seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(int(tokens * 0.745)))


def cpu_of(asking: Asking, question: str) -> float:
    """CPU milliseconds of this process until the prompt is computed, and stored if it is to be."""
    started = time.process_time()
    asking.first_token(question)
    asking.forget()
    return (time.process_time() - started) * 1000


def measure(folder: Path, given: argparse.Namespace) -> list[Row]:
    keeps, plain = Asking(folder, given.threads, FILE_BYTES), Asking(folder, given.threads, 0)
    try:
        for warm in (keeps, plain):
            warm.first_token(words_of(given.tokens, -1))
            warm.forget()
        read, computed = [], []
        features: dict[str, float] = {}
        for pair in range(given.pairs):
            question = words_of(given.tokens, pair)
            milliseconds, _, said = keeps.first_token(question)
            computed.append(milliseconds)
            keeps.forget()
            milliseconds, features, again = keeps.first_token(question)
            if again != said:
                raise RuntimeError(f"pages from disk say {again!r}, computed ones {said!r}")
            read.append(milliseconds)
            keeps.forget()
        with_disk, without = [], []
        for pair in range(given.pairs):
            question = words_of(given.tokens, 1000 + pair)
            with_disk.append(cpu_of(keeps, question))
            without.append(cpu_of(plain, question))
        stored = keeps.pool().stored
    finally:
        keeps.close()
        plain.close()
    what = f"prompt of {features['prompt_tokens']:.0f} tokens"
    return [
        compared(
            f"first token of a {what}: from disk, computed", read, computed, "ms", at_least=2, less_is_better=True
        ),
        alone("tokens of it that are computed all the same", features["computed_tokens"], "tokens", at_most=16),
        compared(
            f"CPU time of a {what}: computed and stored, computed",
            with_disk,
            without,
            "ms",
            at_least=0.9,
            less_is_better=True,
        ),
        alone("pages that were skipped", stored.skipped, "pages", at_most=0),
    ]


def main() -> None:
    given = arguments()
    with TemporaryDirectory(dir=given.folder) as folder:
        show(measure(Path(folder), given))


if __name__ == "__main__":
    main()
