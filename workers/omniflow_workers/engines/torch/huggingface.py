"""Any Hugging Face decoder on our pages, through transformers' `AttentionInterface`."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from omniflow.errors import InvalidArgument
from omniflow_workers.engines.torch.attention import StepAttention

NAME = "omniflow_paged"
_REFUSED = ("attn_logit_softcapping", "sliding_window", "attention_chunk_size")


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    omniflow_step: StepAttention,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' contract: tensors of shape (1, heads, rows, dim); returns (1, rows, heads, dim) and no weights."""
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    query, key, value = (each[0].transpose(0, 1).contiguous() for each in (query, key, value))
    found = omniflow_step.attend(module.layer_idx, query, key, value, scale)
    return found.unsqueeze(0), None


def _no_mask(*_: Any, **__: Any) -> None:
    """Causality is `StepAttention`'s affair."""


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _no_mask)


class HuggingFaceDecoder:
    """Runs the model's own forward over the rows of a step, as one packed sequence without a cache of its own."""

    def __init__(self, model: PreTrainedModel) -> None:
        refuse_unlike_attention(model.config)
        model.set_attn_implementation(NAME)
        self.model = model.eval()
        self._body = model.get_decoder()
        self._head = model.get_output_embeddings()

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attention: StepAttention) -> torch.Tensor:
        output = self._body(
            input_ids=tokens.unsqueeze(0),
            position_ids=positions.unsqueeze(0),
            use_cache=False,
            omniflow_step=attention,
        )
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self._head(hidden)
        return scores.float()


def refuse_unlike_attention(config: Any) -> None:
    """Raises `InvalidArgument` for a model whose attention is not plain and causal over all earlier tokens."""
    values = config.to_dict()
    kinds = set(values.get("layer_types") or ()) - {"full_attention"}
    unlike = sorted(kinds) + [key for key in _REFUSED if values.get(key)]
    if unlike:
        raise InvalidArgument(
            f"{values.get('model_type')} uses {', '.join(unlike)}, which the torch engine does not compute",
            field="model",
            cure="use a model with full causal attention in every layer",
        )
