"""A process that computes with a model's weights, step by step as it is told, and measures itself.

Argument: a cache's entry as `write_model` makes it. Each line that comes says what to do next: "load", "copy", "leave".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omniflow_workers.engines.base import Chunk, ModelFacts
from omniflow_workers.engines.torch.engine import TorchEngine
from omniflow_workers.engines.torch.load import decoder_of, layout_of
from omniflow_workers.engines.torch.pool import KvPool
from omniflow_workers.memory import give_large_blocks_back
from omniflow_workers.weights import convert, format
from omniflow_workers.weights.store import HeldWeights, store_of

LAYERS, WIDTH, INNER, VOCABULARY, HEADS = 4, 768, 2048, 8192, 12
FINGERPRINT = "5" * 64
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "omniflow_llama": {"inverse_frequencies": [1.0 / (i + 1) for i in range(WIDTH // HEADS // 2)], "scaling": 1.0},
}


def write_model(folder: Path) -> None:
    """What a conversion leaves, of a model built like Llama: 31 M parameters, 126 MB."""
    tensors = {"model.embed_tokens.weight": torch.rand(VOCABULARY, WIDTH), "model.norm.weight": torch.ones(WIDTH)}
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            tensors[f"{at}.self_attn.{name}.weight"] = torch.rand(WIDTH, WIDTH)
        for name in ("gate_proj", "up_proj"):
            tensors[f"{at}.mlp.{name}.weight"] = torch.rand(INNER, WIDTH)
        tensors[f"{at}.mlp.down_proj.weight"] = torch.rand(WIDTH, INNER)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}.{name}.weight"] = torch.ones(WIDTH)
    format.write(folder / convert.WEIGHTS, tensors)
    (folder / convert.CONFIG).write_text(json.dumps(CONFIG))


def load(entry: Path) -> tuple[TorchEngine, HeldWeights]:
    """As `engines.torch.load` does, and computes a step with one row and one with many."""
    config = json.loads((entry / convert.CONFIG).read_text())
    held = store_of("cpu").hold(FINGERPRINT, entry / convert.WEIGHTS)
    decoder = decoder_of(config, format.named(held.tensors, held.metadata), "cpu")
    facts = ModelFacts("holder", FINGERPRINT, VOCABULARY, 128, frozenset())
    engine = TorchEngine(facts, decoder, KvPool(layout_of(config, 16), 10, torch.device("cpu")))
    pages = np.arange(1, 9, dtype=np.uint32)
    for count in (1, 8, 100):
        engine.compute([Chunk(np.zeros(count, np.int64), 0, pages, wants_logits=True)])
    return engine, held


def main() -> None:
    give_large_blocks_back()
    torch.set_num_threads(1)
    kept: list[object] = []
    print("ready", flush=True)
    for line in sys.stdin:
        match line.strip():
            case "load":
                engine, held = load(Path(sys.argv[1]))
                kept += [engine, held]
            case "copy":
                kept.append([tensor.clone() for tensor in held.tensors.values()])
            case _:
                break
        print("done", flush=True)


if __name__ == "__main__":
    main()
