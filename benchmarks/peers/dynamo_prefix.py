"""Dynamo's `RadixTree`, which its router asks who holds how much of a prompt, and its hashing of tokens into blocks."""

import argparse
import json
from collections.abc import Iterator
from importlib.metadata import version

from dynamo._core import RadixTree, compute_block_hash_for_seq
from prompts import CLUSTER_BLOCKS, TOKENS, cluster_sequences, prompts
from timed import expect, mean_us, take_orders


def event(number: int, sequence: list[int], path: Iterator[int]) -> bytes:
    """What a worker tells of a sequence that it has stored."""
    blocks = [{"block_hash": next(path), "tokens_hash": block} for block in sequence]
    data = {"stored": {"parent_hash": None, "blocks": blocks}}
    return json.dumps({"event_id": number, "data": data, "dp_rank": 0}).encode()


def path_hashes(sequence: list[int]) -> Iterator[int]:
    """A number for each beginning of the sequence."""
    path = 0
    for block in sequence:
        path = hash((path, block)) & (2**63 - 1)
        yield path


def main() -> None:
    """Fills a tree, then takes orders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=8)
    size = parser.parse_args()
    sequences = cluster_sequences(size.sequences)
    tree = RadixTree()
    for number, sequence in enumerate(sequences):
        tree.apply_event(number % size.workers, event(number, sequence, path_hashes(sequence)))
    asked = sequences[:: max(1, size.sequences // 2000)]

    def match() -> float:
        us = mean_us(tree.find_matches, asked)
        expect(max(tree.find_matches(sequences[0]).scores.values()), CLUSTER_BLOCKS)
        return us

    texts = prompts()

    def keys() -> float:
        def hashes(prompt: list[int]) -> list[int]:
            return compute_block_hash_for_seq(prompt, TOKENS // CLUSTER_BLOCKS)

        us = mean_us(hashes, texts)
        expect(len(hashes(texts[0])), CLUSTER_BLOCKS)
        return us

    take_orders(f"dynamo {version('ai-dynamo-runtime')}", {"match": match, "keys": keys})


if __name__ == "__main__":
    main()
