"""`Engine` over torch: chunks in, scores out, on pages that the caller allocates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from omniflow_workers.engines.base import Chunk, Draw, KvLayout, ModelFacts, Sampled
from omniflow_workers.engines.torch.attention import StepAttention, arrange
from omniflow_workers.engines.torch.decoder import Decoder
from omniflow_workers.engines.torch.pool import KvPool
from omniflow_workers.engines.torch.sampling import draw_ids


class TorchEngine:
    """A decoder on a `KvPool`. Not thread-safe: one thread steps it."""

    def __init__(self, facts: ModelFacts, decoder: Decoder, pool: KvPool) -> None:
        self._facts = facts
        self._decoder = decoder
        self._pool = pool

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    @property
    def layout(self) -> KvLayout:
        return self._pool.layout

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def pool(self) -> KvPool:
        return self._pool

    def copy_pages(self, source: NDArray[np.uint32], target: NDArray[np.uint32]) -> None:
        self._pool.copy(source, target)

    @torch.inference_mode()
    def compute(self, batch: Sequence[Chunk]) -> torch.Tensor:
        order = arrange(batch)
        chunks = [batch[i] for i in order]
        device = self._pool.tensor.device
        attention = StepAttention(self._pool, chunks)
        tokens = torch.from_numpy(np.concatenate([c.tokens for c in chunks])).to(device)
        positions = np.concatenate([np.arange(c.start, c.start + len(c.tokens)) for c in chunks])
        hidden = self._decoder.hidden(tokens, torch.from_numpy(positions).to(device), attention)
        last = np.cumsum([len(c.tokens) for c in chunks]) - 1
        row_of = {i: int(last[place]) for place, i in enumerate(order)}
        rows = [row_of[i] for i, chunk in enumerate(batch) if chunk.wants_logits]
        return self._decoder.logits(hidden if rows == list(range(len(hidden))) else hidden[rows])

    @torch.inference_mode()
    def sample(self, batch: Sequence[Chunk], logits: torch.Tensor, draws: Sequence[Draw]) -> Sampled:
        return Sampled(draw_ids(logits, draws, self.facts.end_tokens))

    def settle(self) -> None:
        device = self._pool.tensor.device
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
