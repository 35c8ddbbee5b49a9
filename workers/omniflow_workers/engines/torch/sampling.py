"""Drawing the next token. A row's result depends on its scores, its parameters, its seed and its place alone."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import torch

from omniflow_workers.engines.base import Draw, SamplingParams

_HEAD = 512
"""Ids to look at before sorting a whole row: nearly always they hold `top_p` of the probability."""


def draw_ids(logits: torch.Tensor, draws: Sequence[Draw], ends: Collection[int] = ()) -> list[int]:
    """One id for each row of `logits`, shape (len(draws), vocabulary), fp32; an id of `ends` only where it may be."""
    open_ = [row for row, draw in enumerate(draws) if draw.index < draw.params.min_tokens]
    if open_ and ends:
        logits = logits.clone()
        logits[torch.tensor(open_)[:, None], torch.tensor(sorted(ends))] = -torch.inf
    ids: list[int] = torch.argmax(logits, dim=-1).tolist()
    for row, draw in enumerate(draws):
        if draw.params.temperature > 0:
            ids[row] = _draw(logits[row], draw)
    return ids


def uniform(seed: int, index: int) -> float:
    """The `index`-th random number of `seed`, in [0, 1). A function, not a state: a token can be drawn again alone."""
    digest = hashlib.blake2b(index.to_bytes(8, "little"), key=seed.to_bytes(16, "little", signed=True), digest_size=8)
    return (int.from_bytes(digest.digest(), "little") >> 11) / (1 << 53)


def _draw(scores: torch.Tensor, draw: Draw) -> int:
    params = draw.params
    probabilities = torch.softmax((scores - scores.max()).double() / params.temperature, dim=-1)
    ids: torch.Tensor | None = None
    if params.top_k > 0 or params.top_p < 1.0:
        probabilities, ids = _likely(probabilities, params)
    sums = torch.cumsum(probabilities, dim=0)
    place = int(torch.searchsorted(sums, uniform(params.seed, draw.index) * float(sums[-1]), right=True))
    place = min(place, len(sums) - 1)
    return place if ids is None else int(ids[place])


def _likely(probabilities: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, torch.Tensor]:
    """The `top_k` likeliest, and of these the fewest that together have `top_p` of their probability; and their ids."""
    if params.top_k > 0:
        best, ids = torch.topk(probabilities, min(params.top_k, len(probabilities)))
        total = float(best.sum())
    else:
        best, ids = torch.topk(probabilities, min(_HEAD, len(probabilities)))
        total = 1.0
        if float(best.sum()) < params.top_p:
            best, ids = torch.sort(probabilities, descending=True)
    if params.top_p < 1.0:
        before = torch.cumsum(best, dim=0) - best
        keep = max(1, int((before < params.top_p * total).sum()))
        best, ids = best[:keep], ids[:keep]
    return best, ids
