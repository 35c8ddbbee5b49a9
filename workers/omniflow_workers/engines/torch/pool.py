"""The KV pool: one tensor that every sequence's pages index, this process's own or shared with others of its host."""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from omniflow_core import ArenaLayout
from omniflow_workers.engines.base import KvLayout
from omniflow_workers.pools import PoolShare, join_pool

log = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

_ROOM_FOR = 8
"""Workers of a host that can have all the pages they may, where a pool is taken only as it is used."""
_ALIGN = 64  # of an arena's pages


class KvPool:
    """`pages` pages in `layout`, two planes (keys, values): shape (layer, plane, page * token, head, dim).

    Layers are outermost, so that the pages of a run with consecutive ids are one strided view per layer: attention
    reads them in place. (Measured, 1 sequence of 512 tokens, 30 layers: 1.6 ms a step in place, 4.3 ms gathered from a
    pool whose pages are outermost.) A token's place is its slot: page id * page_tokens + offset in the page.

    `share`: this process's part of a pool that others map, too; None: all pages are its own.
    """

    def __init__(self, layout: KvLayout, pages: int, device: torch.device, share: PoolShare | None = None) -> None:
        keys, values = layout.planes
        assert (keys.heads, keys.dim) == (values.heads, values.dim)
        self.layout = layout
        self.pages = pages
        self.share = share
        shape = (layout.layers, 2, pages * layout.page_tokens, keys.heads, keys.dim)
        dtype = DTYPES[layout.dtype]
        self.tensor = _zeros(shape, dtype, device) if share is None else share.arena.tensor(dtype, shape)
        self._planes = [(layer[0], layer[1]) for layer in self.tensor]

    def planes(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer, each of shape (slot, head, dim)."""
        return self._planes[layer]

    def copy(self, source: NDArray[np.uint32], target: NDArray[np.uint32]) -> None:
        """Copies whole pages; shape (n,) each, none in both."""
        pages = self.tensor.view(*self.tensor.shape[:2], self.pages, -1, *self.tensor.shape[3:])
        old, new = (torch.from_numpy(each.astype(np.int64)).to(pages.device) for each in (source, target))
        pages[:, :, new] = pages[:, :, old]

    def close(self) -> None:
        """Nothing computes on it any more: its part of a shared pool is free for others."""
        if self.share is not None:
            self.share.close()


def shared_pool(layout: KvLayout, pages: int, device: torch.device, cluster: str) -> KvPool:
    """This process's part, of `pages` pages with the padding, of the pool of that device and layout in the cluster.

    In main memory the pool has room for eight such processes, as only what is used is taken; on another device it is as
    large as the first process that joins wants. Raises as `join_pool` does.
    """
    arena = _arena_layout(layout, pages, device)
    share = join_pool(arena, cluster=cluster, limit=pages - 1)
    if share.limit < (pages - 1) * 3 // 4:
        log.warning(
            "the pool of KV pages on %s that this worker shares was made for workers with fewer pages: it has %d of "
            "the %d pages that kv_bytes allows; give the workers of a host the same kv_bytes, or restart them together",
            device,
            share.limit,
            pages - 1,
        )
    return KvPool(layout, share.arena.layout.pages, device, share)


def _arena_layout(layout: KvLayout, pages: int, device: torch.device) -> ArenaLayout:
    page_bytes = -(-layout.page_bytes // _ALIGN) * _ALIGN
    if device.type == "cpu":
        most = max(pages, psutil.virtual_memory().total // page_bytes)
        pages = min(most, _ROOM_FOR * (pages - 1) + 1)
    described = f"{layout.describe()}:{layout.page_tokens} tokens"
    return ArenaLayout(
        "pages",
        page_bytes=page_bytes,
        pages=pages,
        fingerprint=hashlib.blake2b(described.encode(), digest_size=32).digest(),
        device="cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}",
    )


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros, not garbage: masked slots are still multiplied (by 0), and 0 * NaN is NaN.

    On a CPU they come from the kernel's zero pages, so that only pages in use take memory.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, np.uint8)).view(dtype).view(shape)
