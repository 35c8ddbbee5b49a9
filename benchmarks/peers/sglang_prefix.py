"""SGLang's prefix trees, without their server: `RadixCache` in Python, and the Rust core through its bindings, which is
below SGLang's own Python adapter. Token ids and values are made before the clock starts."""

from array import array
from importlib.metadata import version

import torch
from prompts import PAGE, TOKENS, prompts
from sglang.srt.mem_cache.base_prefix_cache import InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from sglang.srt.mem_cache.rust_tree_core.extension import bindings as core
from timed import Work, expect, mean_us, take_orders


class Allocator:
    """Frees nothing: the tree alone is measured."""

    device = "cpu"

    def free(self, indices: torch.Tensor) -> None: ...


def python_tree() -> dict[str, Work]:
    """Works of `RadixCache`."""
    keys = [RadixKey(array("q", prompt)) for prompt in prompts()]
    inserts = [InsertParams(key=key, value=torch.arange(TOKENS)) for key in keys]
    matches = [MatchPrefixParams(key=key) for key in keys]

    def filled() -> tuple[RadixCache, float]:
        cache = RadixCache.create_simulated(mock_allocator=Allocator(), page_size=PAGE)
        return cache, mean_us(cache.insert, inserts)

    cache, _ = filled()

    def match() -> float:
        us = mean_us(cache.match_prefix, matches)
        expect(cache.match_prefix(matches[0]).device_prefix_len, TOKENS)
        return us

    return {"tree match": match, "tree insert": lambda: filled()[1]}


def rust_core() -> dict[str, Work]:
    """Works of the Rust tree."""
    keys = [array("q", prompt) for prompt in prompts()]
    inserts = [(key, torch.arange(TOKENS)) for key in keys]

    def filled() -> tuple[object, float]:
        params = core.TreeCoreInitParamsBinding(eviction_policy="lru", page_size=PAGE, device="cpu")
        tree = core.RustUnifiedTreeCoreBinding(params, [0])  # 0: full attention

        def insert(pair: tuple[array, torch.Tensor]) -> None:
            tree.begin_insert(core.InsertParamsBinding(key=pair[0], value=pair[1]))
            tree.end_insert()

        return tree, mean_us(insert, inserts)

    tree, _ = filled()

    def find(key: array) -> object:
        return tree.match_prefix(core.MatchParamsBinding(key=key))

    def match() -> float:
        us = mean_us(find, keys)
        expect(find(keys[0]).device_prefix_len, TOKENS)
        return us

    return {"core match": match, "core insert": lambda: filled()[1]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    take_orders(f"sglang {version('sglang')}", python_tree() | rust_core())
