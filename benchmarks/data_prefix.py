"""Page keys, the prefix index and the cluster's index, from Python, beside SGLang, vLLM and Dynamo.

200 prompts of 8,192 token ids that share none, a quarter or half of their beginning, in pages of 16. Each figure is the
mean of a call over all prompts, median of alternating measurements. A match counts until the page ids can be read.
"""

from __future__ import annotations

import argparse
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import numpy as np
from peer_process import Peer, dynamo_prefix, sglang_prefix, vllm_prefix
from peers.prompts import CLUSTER_BLOCKS, PAGE, SEQUENCES, TOKENS, cluster_sequences, prompts
from rows import Row, alone, compared, show

from omniflow_core import ClusterIndex, KeyChain, PageAllocator, PrefixIndex

PAGES = TOKENS // PAGE
CLUSTER_SEQUENCES = 10_400
"""A quarter of their 128 pages are those of others: 1,000,000 are left."""
CLUSTER_WORKERS = 1_000
MOST_WORKERS = 4_000
STATM_RESIDENT = 1

T = TypeVar("T")
Work = Callable[[], float]


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9, help="alternating measurements of ours and of each peer")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    return parser.parse_args()


def mean_us(call: Callable[[T], object], items: Sequence[T]) -> float:
    """Calls with each item in turn."""
    start = time.perf_counter()
    for item in items:
        call(item)
    return (time.perf_counter() - start) / len(items) * 1e6


def new_chain() -> KeyChain:
    """Of a sequence that is still empty."""
    return KeyChain("model", "30xk:8x128+v:8x128:float16", PAGE, b"tenant")


def chain_of(tokens: array[int]) -> KeyChain:
    """The keys of a sequence."""
    chain = new_chain()
    chain.extend(tokens)
    return chain


def worker_works() -> dict[str, Work]:
    """Ours, on the index of one worker."""
    texts = [array("q", prompt) for prompt in prompts()]
    chains = [chain_of(text) for text in texts]

    def filled() -> tuple[PrefixIndex, float]:
        allocator = PageAllocator(SEQUENCES * PAGES + 1)
        index = PrefixIndex(allocator)
        pairs = [(chain, allocator.allocate(PAGES)) for chain in chains]
        us = mean_us(lambda pair: index.insert(*pair), pairs)
        for _, run in pairs:
            run.release()
        return index, us

    index, _ = filled()

    def match() -> float:
        us = mean_us(lambda chain: memoryview(index.match(chain)), chains)
        assert index.match(chains[0]).pages == PAGES
        return us

    def keys_and_match() -> float:
        us = mean_us(lambda text: memoryview(index.match(chain_of(text))), texts)
        assert index.match(chain_of(texts[0])).pages == PAGES
        return us

    turn = np.arange(64, dtype=np.int64)

    def add_turn(chain: KeyChain) -> None:
        chain.extend(turn)
        memoryview(index.match(chain))
        chain.truncate(TOKENS)

    def one_turn() -> float:
        return mean_us(add_turn, chains)

    return {"match": match, "insert": lambda: filled()[1], "keys and match": keys_and_match, "one turn": one_turn}


class Cluster:
    """An index of many workers, each with a few sequences, and sequences to ask it for."""

    def __init__(self, sequences: int, workers: int) -> None:
        tokens = np.array(cluster_sequences(sequences), np.int64)
        chains = [KeyChain("model", "layout", 1, b"") for _ in tokens]
        for chain, blocks in zip(chains, tokens, strict=True):
            chain.extend(blocks)
        before = resident_bytes()
        self.index = ClusterIndex()
        for number, chain in enumerate(chains):
            self.index.insert(number % workers, chain)
        self.bytes_a_page = (resident_bytes() - before) / len(self.index)
        self.asked = chains[:: max(1, len(chains) // 2000)]

    def match(self) -> float:
        """Who holds how much of a sequence, and the eight that hold most."""
        us = mean_us(lambda chain: self.index.match(chain).longest(8), self.asked)
        assert self.index.match(self.asked[0]).pages == CLUSTER_BLOCKS
        return us


def resident_bytes() -> int:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[STATM_RESIDENT]) * 4096


def beside(name: str, ours: Work, peer: Peer, work: str, pairs: int, at_least: float) -> Row:
    """Alternating measurements of ours and of a peer, or ours alone."""
    if peer.missing:
        return alone(name, sorted(ours() for _ in range(pairs))[pairs // 2], "µs", why=peer.missing)
    figures = [(ours(), float(peer.order(work=work)["us"])) for _ in range(pairs)]
    mine, theirs = zip(*figures, strict=True)
    return compared(f"{name} ({peer.name})", mine, theirs, "µs", at_least=at_least, less_is_better=True)


def worker_rows(pairs: int, sglang: Peer, vllm: Peer, dynamo: Peer) -> list[Row]:
    """The index of one worker, and page keys."""
    works = worker_works()
    match, insert, both = works["match"], works["insert"], works["keys and match"]
    return [
        beside("match of 8,192 tokens, keys known; Rust core", match, sglang, "core match", pairs, 5),
        beside("match of 8,192 tokens, keys known; Python tree", match, sglang, "tree match", pairs, 5),
        beside("match of 8,192 tokens, keys known; hashes given", match, vllm, "match", pairs, 5),
        beside("insert of 8,192 tokens, keys known; Rust core", insert, sglang, "core insert", pairs, 5),
        beside("insert of 8,192 tokens, keys known; Python tree", insert, sglang, "tree insert", pairs, 5),
        beside("insert of 8,192 tokens, keys known; hashes given", insert, vllm, "insert", pairs, 5),
        beside("keys of 8,192 new tokens and match; match in the Python tree", both, sglang, "tree match", pairs, 1),
        beside("keys of 8,192 new tokens and match; hashing alone", both, dynamo, "keys", pairs, 2),
        alone("keys of 64 tokens more in a session of 8,192, and match", works["one turn"](), "µs"),
    ]


def cluster_rows(pairs: int, small: Peer, same: Peer) -> list[Row]:
    """The index of a cluster, and that it does not mind how many workers there are."""
    cluster = Cluster(CLUSTER_SEQUENCES, CLUSTER_WORKERS)
    most = Cluster(CLUSTER_SEQUENCES, MOST_WORKERS)
    name = f"cluster of {CLUSTER_WORKERS:,} workers and {len(cluster.index):,} pages: match of {CLUSTER_BLOCKS}"
    flat = [(most.match(), cluster.match()) for _ in range(pairs)]
    slower = sorted(many / few for many, few in flat)[pairs // 2]
    return [
        beside(f"{name}; 8 workers, 256,000 blocks", cluster.match, small, "match", pairs, 10),
        beside(f"{name}; the same size", cluster.match, same, "match", pairs, 10),
        alone(f"the same at {MOST_WORKERS:,} workers, over {CLUSTER_WORKERS:,}", slower, "times", at_most=1.5),
        alone("resident bytes of a page in it", cluster.bytes_a_page, "B", at_most=120),
    ]


def main() -> None:
    options = arguments()
    size = ("--sequences", str(CLUSTER_SEQUENCES), "--workers", str(CLUSTER_WORKERS))
    rows: list[Row] = []
    with ExitStack() as stack:
        sglang, vllm, dynamo = started(stack, options, sglang_prefix(), vllm_prefix(), dynamo_prefix())
        rows += worker_rows(options.pairs, sglang, vllm, dynamo)
        (same,) = started(stack, options, dynamo_prefix(*size))
        rows += cluster_rows(options.pairs, dynamo, same)
    show(rows)


def started(stack: ExitStack, options: argparse.Namespace, *peers: Peer) -> tuple[Peer, ...]:
    """The peers, running, as far as they are set up and wanted."""
    for peer in peers:
        if options.no_peers:
            peer.missing = "left out"
        if not peer.missing:
            stack.enter_context(peer)
    return peers


if __name__ == "__main__":
    main()
