"""A `PageSource` without a model: pages of bytes that say what they are, over a host arena or memory of its own."""

from __future__ import annotations

import numpy as np
import torch

from omniflow_core import ArenaLayout, HostArena, KeyChain, PageAllocator, PageKeys, PageRun, PrefixIndex
from omniflow_workers.transfer import Acquired, PageIds, now_ms

MODEL = "tiny"
PAGE_TOKENS = 16


def chain_of(seed: int, pages: int) -> KeyChain:
    """The keys of a sequence of so many pages, unlike that of any other seed."""
    chain = KeyChain(MODEL, "bytes", PAGE_TOKENS)
    chain.extend(np.random.default_rng(seed).integers(0, 1 << 31, pages * PAGE_TOKENS, dtype=np.int64))
    return chain


def keys_of(seed: int, pages: int) -> PageKeys:
    return chain_of(seed, pages).keys


def arena_of(pages: int, page_bytes: int) -> HostArena:
    """Shared memory for a pool."""
    layout = ArenaLayout("pages", page_bytes=page_bytes, pages=pages, fingerprint=b"t" * 32)
    return HostArena.create(layout, name="omniflow-tiny")


class TinySource:
    """Pages of `page_bytes` bytes. The content of page `i` of sequence `seed` is `content(seed, i)`."""

    model = MODEL
    layout = "bytes"
    page_tokens = PAGE_TOKENS
    device = "cpu"

    def __init__(
        self, pages: int = 1024, page_bytes: int = 4096, *, arena: HostArena | None = None, pool_owner: int = 0
    ) -> None:
        self.page_bytes = page_bytes
        self.pool_owner = pool_owner
        self.arena = arena
        if arena is None:
            self.allocator = PageAllocator(pages)
            self.rows = np.zeros((pages, page_bytes), np.uint8)
        else:
            self.allocator = arena.allocator()
            self.allocator.adopt(1, pages)
            self.rows = np.frombuffer(memoryview(arena), np.uint8).reshape(-1, page_bytes)
        self.index = PrefixIndex(self.allocator)

    @property
    def pool(self) -> bytes | None:
        return None if self.arena is None else self.arena.id

    def content(self, seed: int, page: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """What that page holds."""
        return np.random.default_rng((seed, page)).integers(0, 256, self.page_bytes, dtype=np.uint8)

    def compute(self, seed: int, pages: int) -> None:
        """The sequence is there, kept by the index alone."""
        chain = chain_of(seed, pages)
        with self.allocator.allocate(pages) as run:
            for page, place in enumerate(np.asarray(run)):
                self.rows[place] = self.content(seed, page)
            self.index.insert(chain, run)

    def take(self, pages: int) -> PageRun:
        """Pages to pull into."""
        return self.allocator.allocate(pages)

    def holds(self, seed: int, places: PageIds, first: int = 0) -> bool:
        """Whether these pages are the sequence's, from page `first` on."""
        return all(np.array_equal(self.rows[place], self.content(seed, first + n)) for n, place in enumerate(places))

    def acquire(self, keys: PageKeys, holder: int, until_ms: int, /) -> Acquired | None:
        with self.index.match(keys) as match:
            if match.pages == 0:
                return None
            with match.run() as run:
                lease = run.lease(holder, until_ms)
                return Acquired(np.array(run, np.uint32), np.frombuffer(run.generations, np.uint64).copy(), lease)

    def renew(self, lease: int, now: int, until_ms: int, /) -> None:
        self.allocator.renew(lease, now, until_ms)

    def end(self, lease: int, /) -> None:
        self.allocator.end_lease(lease)

    def gather(self, pages: PageIds, into: torch.Tensor, /) -> None:
        np.take(self.rows, pages, axis=0, out=into.numpy())

    def scatter(self, pages: PageIds, rows: torch.Tensor, /) -> None:
        self.rows[pages] = rows.numpy()

    @property
    def leased(self) -> int:
        """Pages under a lease, by the source's own book."""
        self.allocator.expire(now_ms())
        return self.allocator.counters()["leased"]
