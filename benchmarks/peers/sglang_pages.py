"""SGLang's `PagedTokenToKVPoolAllocator` on a CPU: the tokens of 512 pages allocated and freed."""

import logging
import os
import warnings
from importlib.metadata import version

os.environ.setdefault("OMP_NUM_THREADS", "1")
logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

import torch
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from timed import expect, mean_us, take_orders

POOL_PAGES = 65_536
PAGES = 512
PAGE_TOKENS = 16
CALLS = 500


class NoCache:
    """Holds nothing: the allocator alone is measured."""

    def get_cpu_copy(self, *_: object) -> None: ...


pool = PagedTokenToKVPoolAllocator(
    size=POOL_PAGES * PAGE_TOKENS,
    page_size=PAGE_TOKENS,
    dtype=torch.float16,
    device="cpu",
    kvcache=NoCache(),
    need_sort=False,
)


def allocate_and_free() -> float:
    """All tokens are free again in the end, and no slot was handed out twice."""
    tokens = PAGES * PAGE_TOKENS
    us = mean_us(lambda count: pool.free(pool.alloc(count)), [tokens] * CALLS)
    slots = pool.alloc(tokens)
    expect(len(set(slots.tolist())), tokens)
    pool.free(slots)
    expect(pool.available_size(), POOL_PAGES * PAGE_TOKENS)
    return us


if __name__ == "__main__":
    take_orders(f"sglang {version('sglang')}", {"allocate and free": allocate_and_free})
