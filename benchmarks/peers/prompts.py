"""The prompts that prefix indexes are measured with: the same on both sides, so only the standard library."""

import random

TOKENS = 8192
PAGE = 16
SEQUENCES = 200
VOCABULARY = 150_000
CLUSTER_BLOCKS = 128


def prompts() -> list[list[int]]:
    """`SEQUENCES` prompts of `TOKENS` token ids of which none, a quarter or half is a beginning that others share."""
    rng = random.Random(0)
    shared = [rng.randrange(VOCABULARY) for _ in range(TOKENS)]
    return [
        shared[:length] + [rng.randrange(VOCABULARY) for _ in range(TOKENS - length)]
        for length in (rng.choice((0, TOKENS // 4, TOKENS // 2)) for _ in range(SEQUENCES))
    ]


def cluster_sequences(sequences: int) -> list[list[int]]:
    """Sequences of `CLUSTER_BLOCKS` blocks, each block one number, of which none, a quarter or half is shared."""
    rng = random.Random(0)
    shared = [rng.getrandbits(31) for _ in range(CLUSTER_BLOCKS)]
    return [
        shared[:length] + [rng.getrandbits(31) for _ in range(CLUSTER_BLOCKS - length)]
        for length in (rng.choice((0, CLUSTER_BLOCKS // 4, CLUSTER_BLOCKS // 2)) for _ in range(sequences))
    ]
