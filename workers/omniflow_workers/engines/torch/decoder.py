"""What the engine asks of a model: hidden states of a step's tokens, and scores of some of them."""

from __future__ import annotations

from typing import Protocol

import torch

from omniflow_workers.engines.torch.attention import StepAttention


class Decoder(Protocol):
    """A causal model whose attention goes through `StepAttention`."""

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attention: StepAttention) -> torch.Tensor:
        """`tokens`, `positions`: shape (rows,), int64. Returns (rows, width), ready for `logits`."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`hidden`: (rows, width). Returns fp32 scores of shape (rows, vocabulary)."""
