"""What every engine offers, and the small types that cross its boundary. Knows no framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Logits = TypeVar("Logits")
"""An engine's own handle on scores: a tensor that need not leave the device."""


@dataclass(frozen=True, slots=True)
class KvPlane:
    """One kind of stored state per token and layer: keys, values, or a latent that stands for both."""

    name: str
    heads: int
    dim: int


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How KV lies in a pool. Two workers may share pages only when their layouts are equal.

    `order` names the dimensions of the pool's tensor, outermost first. Keys and values of a head are two planes; an
    MLA latent is one.
    """

    layers: int
    planes: tuple[KvPlane, ...]
    dtype: str
    page_tokens: int
    order: str = "layer,plane,page,token,head,dim"

    @property
    def page_bytes(self) -> int:
        """Bytes of one page over all layers and planes."""
        item = 2 if self.dtype in ("float16", "bfloat16") else np.dtype(self.dtype).itemsize
        return self.layers * self.page_tokens * item * sum(plane.heads * plane.dim for plane in self.planes)

    def describe(self) -> str:
        """A stable text, equal for equal layouts: part of the root of page keys."""
        planes = "+".join(f"{plane.name}:{plane.heads}x{plane.dim}" for plane in self.planes)
        return f"{self.layers}x{planes}:{self.dtype}:{self.order}"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a scheduler of steps must know about a model.

    `fingerprint`: names the weights, 64 hex digits; `context_tokens`: the longest sequence, prompt and answer together;
    `end_tokens`: ids that end an answer.
    """

    name: str
    fingerprint: str
    vocabulary: int
    context_tokens: int
    end_tokens: frozenset[int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens of one sequence to compute now: many of them (prefill) or the latest one (decode).

    `tokens`: shape (n,), ids; `start`: position of the first one, so `start` tokens are in the pages already;
    `pages`: shape (>= ceil((start + n) / page_tokens),), page ids of the sequence from its beginning;
    `wants_logits`: whether the scores after its last token are needed.
    """

    tokens: NDArray[np.int64]
    start: int
    pages: NDArray[np.uint32]
    wants_logits: bool


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn. `temperature` 0 is greedy; `top_k` 0 and `top_p` 1 cut nothing off.

    `min_tokens`: so many are drawn before an end token may be (vLLM's word for it; Hugging Face says `min_new_tokens`).
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    min_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Draw:
    """One row of scores to sample: with these parameters, as the `index`-th token of its answer."""

    params: SamplingParams
    index: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """The ids drawn, a row each, and what else the model gives per row (hidden states, codes); None when nothing."""

    ids: list[int]
    outputs: Sequence[object] | None = None


class Engine(Protocol, Generic[Logits]):
    """A model on a KV pool. Page ids come from outside; page 0 is padding and never holds a token."""

    @property
    def facts(self) -> ModelFacts: ...
    @property
    def layout(self) -> KvLayout: ...
    def copy_pages(self, source: NDArray[np.uint32], target: NDArray[np.uint32]) -> None:
        """Copies the KV of the pages `source` to the pages `target`; shape (n,) each, none in both."""

    def compute(self, batch: Sequence[Chunk]) -> Logits:
        """Prefills and decodes in one pass: writes the KV of every token of `batch` into its pages.

        Returns scores of shape (chunks with `wants_logits`, vocabulary), in the order of `batch`.
        """

    def sample(self, batch: Sequence[Chunk], logits: Logits, draws: Sequence[Draw]) -> Sampled:
        """Turns the scores of `compute(batch)` into ids, a row for each of `draws`, which say how.

        The model owns this step: it may also give other outputs. A row depends on its scores and its `Draw` only.
        """

    def settle(self) -> None:
        """Returns once what was computed lies in its pages, for other processes too."""
