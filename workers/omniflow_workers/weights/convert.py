"""From a GGUF file or a Hugging Face folder to the cached form. The only place that must import transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omniflow_workers.weights import format
from omniflow_workers.weights.cache import Convert, Entry, WeightsCache
from omniflow_workers.weights.fingerprint import fingerprint
from omniflow_workers.weights.source import WeightsSource

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DTYPE = "float32"
LAYOUT = "joined rows, 3"
"""Part of the fingerprint: raise its number when the cached form changes, and every model is converted anew."""

WEIGHTS, CONFIG, TOKENIZER, CHAT = "model.safetensors", "config.json", "tokenizer.json", "chat.json"


Examine = Callable[["PreTrainedModel", format.Weights], dict[str, Any]]
"""Looks at a model beside its converted weights; what it returns joins the configuration."""


def prepare(source: WeightsSource, kept: WeightsCache, converting: Convert) -> tuple[str, Entry]:
    """(fingerprint, converted model) of `source`, from the cache `kept` when it is there, else by `converting`."""
    named = fingerprint(source.content(kept.digests), DTYPE, LAYOUT)
    return named, kept.entry(named, converting)


def convert(source: WeightsSource, folder: Path, examine: Examine) -> None:
    """Writes weights, configuration, tokenizer and chat template of `source` into `folder`. Weights become fp32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(source.path)}
    only: dict[str, Any] = {"use_safetensors": True}
    if source.is_gguf:
        where = {"pretrained_model_name_or_path": str(source.path.parent), "gguf_file": source.path.name}
        only = {}
    with _gguf_read_once():
        model = AutoModelForCausalLM.from_pretrained(
            **where, **only, dtype=getattr(torch, DTYPE), local_files_only=True
        )
        tokenizer = AutoTokenizer.from_pretrained(**where, local_files_only=True)
    write_model(model, folder, examine)
    tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))
    chat = {
        "template": tokenizer.chat_template,
        "special": {name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)},
    }
    (folder / CHAT).write_text(json.dumps(chat, indent=1))


@contextmanager
def _gguf_read_once() -> Iterator[None]:
    """transformers parses a GGUF file three times, and makes gguf's table of names anew for every module of the model.

    Done once each, the CPU time of a conversion of SmolLM2, imports included, falls from 45 s to 30 s.
    """
    try:
        import gguf
    except ImportError:  # transformers says it when it needs it
        yield
        return
    reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader, gguf.get_tensor_name_map = cache(reader), cache(names)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = reader, names


def write_model(model: PreTrainedModel, folder: Path, examine: Examine) -> None:
    """Weights and configuration of a loaded model.

    The state dict is written by us: a model loaded from GGUF counts as quantised and refuses `save_pretrained`, though
    its weights are plain fp32 by now. Tied weights are written once, and tied again when loaded.
    """
    written: dict[int, str] = {}
    tensors = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in written:
            written[tensor.data_ptr()] = name
            tensors[name] = tensor
    format.write(folder / WEIGHTS, tensors)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config["architectures"] = [type(model).__name__]
    ends = model.generation_config.eos_token_id if model.generation_config is not None else config.get("eos_token_id")
    config["omniflow_end_tokens"] = ends if isinstance(ends, list) else [ends] if ends is not None else []
    config.update(examine(model, format.read(folder / WEIGHTS)))
    (folder / CONFIG).write_text(json.dumps(config, indent=1))
