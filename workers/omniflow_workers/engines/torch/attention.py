"""Paged attention of one step: how its sequences are grouped is decided once, then every layer does the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from omniflow_workers.engines.base import Chunk
from omniflow_workers.engines.torch.pool import KvPool

GATHER_TOKENS = 256
"""Decoding sequences of up to so many tokens are gathered and computed together; longer ones are read in place.

A call costs about 24 µs a layer, copying a token's keys and values 0.1 µs: measured on two Xeon cores.
"""

Slots = slice | torch.Tensor


class Group(Protocol):
    """Rows of a step that attend in one call."""

    @property
    def rows(self) -> slice: ...
    def attend(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
        """`query`: (rows, heads, dim); `keys`, `values`: (slots of the pool, kv heads, dim). Returns query's shape."""


@dataclass(frozen=True, slots=True)
class OneSequence:
    """One or more tokens of one sequence, over all its slots. `mask`: (rows, length), None when none is needed."""

    rows: slice
    slots: Slots
    length: int
    mask: torch.Tensor | None
    causal: bool

    def attend(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
        count, heads, dim = query.shape
        key = keys[self.slots].transpose(0, 1).unsqueeze(0)
        value = values[self.slots].transpose(0, 1).unsqueeze(0)
        if count == 1:  # the heads that share a KV head become rows of one query: it is read once for all of them
            grouped = query.view(1, keys.shape[1], -1, dim)
            found = functional.scaled_dot_product_attention(grouped, key, value, scale=scale)
            return found.reshape(1, heads, dim)
        found = functional.scaled_dot_product_attention(
            query.transpose(0, 1).unsqueeze(0),
            key,
            value,
            attn_mask=self.mask,
            is_causal=self.causal,
            scale=scale,
            enable_gqa=True,
        )
        return found[0].transpose(0, 1)


@dataclass(frozen=True, slots=True)
class ShortDecodes:
    """The latest token of each of several sequences, padded to the longest. `mask`: (sequences, 1, 1, length)."""

    rows: slice
    slots: torch.Tensor
    length: int
    mask: torch.Tensor

    def attend(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
        count, heads, dim = query.shape
        shape = (count, self.length, keys.shape[1], dim)
        found = functional.scaled_dot_product_attention(
            query.view(count, keys.shape[1], -1, dim),
            keys.index_select(0, self.slots).view(shape).transpose(1, 2),
            values.index_select(0, self.slots).view(shape).transpose(1, 2),
            attn_mask=self.mask,
            scale=scale,
        )
        return found.reshape(count, heads, dim)


class StepAttention:
    """Writes a step's keys and values to their slots and attends over them.

    The rows of a step are the tokens of its chunks, in order. Chunks of one token come first, the shortest contexts
    first among them (`arrange`).
    """

    def __init__(self, pool: KvPool, chunks: Sequence[Chunk]) -> None:
        self._pool = pool
        device = pool.tensor.device
        page_tokens = pool.layout.page_tokens
        written = [slots_of(c.pages, c.start, c.start + len(c.tokens), page_tokens) for c in chunks]
        self._write = torch.from_numpy(np.concatenate(written)).to(device)
        self.groups: list[Group] = []
        short = [c for c in chunks if len(c.tokens) == 1 and c.start < GATHER_TOKENS]
        row = 0
        if len(short) > 1:
            self.groups.append(_short_decodes(short, page_tokens, pool.tensor))
            row = len(short)
        for chunk in chunks[row:]:
            self.groups.append(_one_sequence(chunk, row, page_tokens, device))
            row += len(chunk.tokens)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """`query`: (rows, heads, dim); `key`, `value`: (rows, kv heads, dim). Returns (rows, heads, dim)."""
        keys, values = self._pool.planes(layer)
        keys.index_copy_(0, self._write, key)
        values.index_copy_(0, self._write, value)
        if len(self.groups) == 1:
            return self.groups[0].attend(query, keys, values, scale)
        return torch.cat([group.attend(query[group.rows], keys, values, scale) for group in self.groups])


def arrange(chunks: Sequence[Chunk]) -> list[int]:
    """The order in which `StepAttention` wants the chunks: indices into `chunks`."""
    return sorted(range(len(chunks)), key=lambda i: (len(chunks[i].tokens) > 1, chunks[i].start))


def slots_of(pages: NDArray[np.uint32], start: int, end: int, page_tokens: int) -> NDArray[np.int64]:
    """Slots of the tokens at positions `start` to `end` of a sequence with these pages."""
    positions = np.arange(start, end)
    slots: NDArray[np.int64] = pages[positions // page_tokens].astype(np.int64) * page_tokens + positions % page_tokens
    return slots


def _one_sequence(chunk: Chunk, row: int, page_tokens: int, device: torch.device) -> OneSequence:
    count = len(chunk.tokens)
    length = chunk.start + count
    pages = chunk.pages[: -(-length // page_tokens)]
    if int(pages[-1]) - int(pages[0]) == len(pages) - 1 and bool((np.diff(pages.astype(np.int64)) == 1).all()):
        first = int(pages[0]) * page_tokens
        slots: Slots = slice(first, first + length)
    else:
        slots = torch.from_numpy(slots_of(pages, 0, length, page_tokens)).to(device)
    mask = None
    if count > 1 and chunk.start > 0:
        mask = torch.ones(count, length, dtype=torch.bool, device=device).tril_(chunk.start)
    return OneSequence(slice(row, row + count), slots, length, mask, causal=count > 1 and mask is None)


def _short_decodes(chunks: Sequence[Chunk], page_tokens: int, like: torch.Tensor) -> ShortDecodes:
    longest = chunks[-1].start + 1
    slots = np.zeros((len(chunks), longest), np.int64)  # page 0 is padding
    mask = np.full((len(chunks), 1, 1, longest), -np.inf, np.float32)
    for i, chunk in enumerate(chunks):
        slots[i, : chunk.start + 1] = slots_of(chunk.pages, 0, chunk.start + 1, page_tokens)
        mask[i, ..., : chunk.start + 1] = 0.0
    return ShortDecodes(
        slice(0, len(chunks)),
        torch.from_numpy(slots.reshape(-1)).to(like.device),
        longest,
        torch.from_numpy(mask).to(like.device, like.dtype),
    )
