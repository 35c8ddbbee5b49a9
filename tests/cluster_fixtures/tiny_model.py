"""A tiny model of a real class, with a tokenizer and a chat template, laid out as Hugging Face does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|user|>", "<|system|>", "<|assistant|>"]


def save_model(family: str, folder: Path) -> None:
    """Writes it to `folder`: the same one every time."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_byte_level(), eos_token=SPECIAL[0])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 6 if family == "gpt_neox" else 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": family == "llama",
        "eos_token_id": 0,
        "initializer_range": 0.3,
    }
    if family == "qwen3":
        sizes["head_dim"] = 16
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes))
    model.save_pretrained(folder)


def _byte_level() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {each: i for i, each in enumerate(SPECIAL + alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in SPECIAL])
    return tokenizer
