"""From a model's name to an engine that is ready to run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from omniflow.errors import InvalidArgument
from omniflow_workers.engines.base import Chunk, KvLayout, KvPlane, ModelFacts
from omniflow_workers.engines.torch import llama
from omniflow_workers.engines.torch.converting import Converting, here
from omniflow_workers.engines.torch.decoder import Decoder
from omniflow_workers.engines.torch.engine import TorchEngine
from omniflow_workers.engines.torch.pool import KvPool, shared_pool
from omniflow_workers.weights import convert, format
from omniflow_workers.weights.cache import Entry, cache_of
from omniflow_workers.weights.source import WeightsSource, locate
from omniflow_workers.weights.store import HeldWeights, store_of

_EXAMINED = "omniflow_llama"
_TOLERANCE = 1e-3
"""Logits of two orders of the same fp32 sums differ by about 1e-5 of their range; another model's by about 1."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """An engine, the weights that it computes with, and the folder with its tokenizer and chat template."""

    engine: TorchEngine
    held: HeldWeights
    entry: Entry


def load(
    model: str,
    cache: Path,
    *,
    device: str,
    page_tokens: int,
    kv_bytes: int,
    converting: Converting = here,
    cluster: str = "",
) -> Loaded:
    """An engine for `model`, as `locate` takes it. Raises `InvalidArgument` naming the option.

    `cache`: the worker's folder for converted weights and the like; `kv_bytes`: of KV that it may have at once;
    `cluster`: with whose workers on this host it shares a pool; empty: it has a pool of its own.
    """
    source = locate(model)
    fingerprint, entry = convert.prepare(source, cache_of(cache), converting(source))
    config = json.loads(entry.file(convert.CONFIG).read_text())
    facts = facts_of(source, fingerprint, config)
    layout = layout_of(config, page_tokens)
    pages = kv_bytes // layout.page_bytes
    if pages < 2:
        raise InvalidArgument(
            f"kv_bytes={kv_bytes} holds no page: one has {layout.page_bytes} bytes, and page 0 is padding",
            field="kv_bytes",
            cure=f"give at least {2 * layout.page_bytes}",
        )
    held = store_of(device).hold(fingerprint, entry.file(convert.WEIGHTS))
    decoder = decoder_of(config, format.named(held.tensors, held.metadata), device)
    where = torch.device(device)
    pool = shared_pool(layout, pages, where, cluster) if cluster else KvPool(layout, pages, where)
    return Loaded(TorchEngine(facts, decoder, pool), held, entry)


def facts_of(source: WeightsSource, fingerprint: str, config: dict[str, Any]) -> ModelFacts:
    return ModelFacts(
        name=source.name,
        fingerprint=fingerprint,
        vocabulary=config["vocab_size"],
        context_tokens=config["max_position_embeddings"],
        end_tokens=frozenset(config["omniflow_end_tokens"]),
    )


def layout_of(config: dict[str, Any], page_tokens: int) -> KvLayout:
    """The KV layout of a decoder with keys and values per head, in fp32."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    planes = (KvPlane("k", heads, dim), KvPlane("v", heads, dim))
    return KvLayout(config["num_hidden_layers"], planes, "float32", page_tokens)


def decoder_of(config: dict[str, Any], weights: format.Weights, device: str) -> Decoder:
    """The short way for models that were seen to agree with it when converted; transformers for all others."""
    examined = config.get(_EXAMINED)
    if examined is not None and device == "cpu":
        return llama.build(config, weights, _rotary(examined, config["max_position_embeddings"]))
    return _through_transformers(config, weights, device)


def examine(model: Any, weights: format.Weights) -> dict[str, Any]:
    """Tries whether `LlamaDecoder` gives the scores that the model gives; if so, what it needs to be built again."""
    from omniflow_workers.engines.torch.huggingface import refuse_unlike_attention

    refuse_unlike_attention(model.config)
    rotary = getattr(model.get_decoder(), "rotary_emb", None)
    if rotary is None or rotary.rope_type in ("dynamic", "longrope"):  # their frequencies change with the length
        return {}
    examined = {"inverse_frequencies": rotary.inv_freq.tolist(), "scaling": float(rotary.attention_scaling)}
    config = model.config.to_dict()
    try:
        decoder = llama.build(config, weights, _rotary(examined, config["max_position_embeddings"]))
    except (llama.NotLlama, KeyError):
        return {}
    return {_EXAMINED: examined} if _agrees(model, decoder, config) else {}


def _agrees(model: Any, decoder: Decoder, config: dict[str, Any]) -> bool:
    count = min(24, config["max_position_embeddings"])
    ids = torch.randint(config["vocab_size"], (count,), generator=torch.Generator().manual_seed(0))
    pool = KvPool(layout_of(config, count), 2, torch.device("cpu"))
    engine = TorchEngine(ModelFacts("", "", 0, count, frozenset()), decoder, pool)
    pages = torch.ones(1, dtype=torch.int64).numpy().astype("uint32")
    with torch.inference_mode():
        expected = model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0, -1]
    try:
        found = engine.compute([Chunk(ids.numpy(), 0, pages, wants_logits=True)])[0]
    except RuntimeError:  # shapes that do not fit: not built like Llama after all
        return False
    return bool((found - expected).abs().max() <= _TOLERANCE * (expected.max() - expected.min()))


def _rotary(examined: dict[str, Any], context: int) -> llama.Rotary:
    frequencies = torch.tensor(examined["inverse_frequencies"], dtype=torch.float32)
    return llama.Rotary.of(frequencies, examined["scaling"], context)


def _through_transformers(config: dict[str, Any], weights: format.Weights, device: str) -> Decoder:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    from omniflow_workers.engines.torch.huggingface import HuggingFaceDecoder

    plain = {key: value for key, value in config.items() if not key.startswith("omniflow_")}
    with no_init_weights():
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**plain), dtype=torch.float32)
    model.load_state_dict(dict(weights.named), strict=False, assign=True)
    model.tie_weights()
    model.requires_grad_(False)  # read-only memory: nobody shall write gradients or updates
    return HuggingFaceDecoder(model.to(device))
