"""The pages of one engine, as others may have them: found by key, leased, copied out and in. Safe from any thread."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_core import KeyChain, PageAllocator, PageKeys, PageRun, PrefixIndex
from omniflow_workers.engines.hand_overs import HandOvers
from omniflow_workers.engines.sequence import page_ids
from omniflow_workers.engines.torch.engine import TorchEngine
from omniflow_workers.transfer import Acquired

_COUNTED = ("total", "own", "free", "held", "pinned", "leased", "references", "leases")


class EnginePages:
    """What an engine's index knows is complete and never written again, so that others may read it meanwhile."""

    def __init__(self, engine: TorchEngine) -> None:
        self._engine = engine
        share = engine.pool.share
        self.allocator = PageAllocator(engine.pool.pages) if share is None else share.allocator
        self.index = PrefixIndex(self.allocator)
        self.model = engine.facts.fingerprint
        self.layout = engine.layout.describe()
        self.page_tokens = engine.layout.page_tokens
        self.page_bytes = engine.layout.page_bytes
        self.device = str(engine.pool.tensor.device)
        self.pool = None if share is None else share.arena.book.id
        self.pool_owner = 0 if share is None else share.owner
        self.hand_overs = HandOvers()

    def new_chain(self, tenant: str) -> KeyChain:
        """An empty chain of the keys of these pages."""
        return KeyChain(self.model, self.layout, self.page_tokens, tenant.encode())

    def known(self, keys: KeyChain | PageKeys, most: int) -> int:
        """How many of the first `most` pages are here."""
        with self.index.match(keys, max_pages=most) as match:
            return match.pages

    def keep(self, keys: KeyChain | PageKeys, most: int) -> PageRun:
        """Holds those of the first `most` pages that are here, until it is released."""
        with self.index.match(keys, max_pages=most) as match:
            return match.run()

    def take_in(self, keys: KeyChain | PageKeys, run: PageRun) -> None:
        """The pages of `run` hold what these keys name: they are found from now on."""
        self.index.insert(keys, run)

    def extend(self, run: PageRun, pages: int) -> None:
        """Adds pages to a run, to be written to. Raises `OutOfPages`."""
        share = self._engine.pool.share
        if self.allocator.free_pages < pages and (share is None or not share.grow(pages)):
            self.index.make_room(pages)
        run.extend(pages)

    def acquire(self, keys: PageKeys, holder: int, until_ms: int) -> Acquired | None:
        """Leases the longest known prefix of `keys` to `holder`; None when not even its first page is here."""
        with self.index.match(keys) as match:
            if match.pages == 0:
                return None
            run = match.run()
        self._engine.settle()
        with run:
            lease = run.lease(holder, until_ms)
            self.hand_overs.taken(keys[: len(run)])
            return Acquired(page_ids(run), np.frombuffer(run.generations, np.uint64), lease)

    def renew(self, lease: int, now_ms: int, until_ms: int) -> None:
        """Raises `UnknownLease` when it has ended."""
        self.allocator.renew(lease, now_ms, until_ms)

    def end(self, lease: int) -> None:
        """Raises `UnknownLease` when it has ended."""
        self.allocator.end_lease(lease)

    def account(self, into: MemoryAccount) -> None:
        """Adds these pages to what a worker says of its memory."""
        counted = self.allocator.counters()
        account = into.pools.add(
            model=self.model,
            layout=self.layout,
            arena=self.pool or b"",
            page_bytes=self.page_bytes,
            indexed=len(self.index),
            **{name: counted[name] for name in _COUNTED},
        )
        share = self._engine.pool.share
        if share is not None:
            share.account(account)

    @torch.inference_mode()
    def gather(self, pages: NDArray[np.uint32], into: torch.Tensor) -> None:
        """Copies whole pages out: `into` is uint8, shape (pages, page_bytes), contiguous."""
        rows, ids = self._rows(pages)
        target = into.view(rows.dtype).view(-1, *rows.shape[1:])
        if target.device == rows.device:
            torch.index_select(rows, 0, ids, out=target)  # `rows[ids]` would be a copy of its own, to be copied again
        else:
            target.copy_(rows[ids])

    @torch.inference_mode()
    def scatter(self, pages: NDArray[np.uint32], from_: torch.Tensor) -> None:
        """Writes whole pages, which the caller holds alone: `from_` is uint8, shape (pages, page_bytes), contiguous."""
        rows, ids = self._rows(pages)
        rows.index_copy_(0, ids, from_.view(rows.dtype).view(-1, *rows.shape[1:]).to(rows.device))
        self._engine.settle()

    def _rows(self, pages: NDArray[np.uint32]) -> tuple[torch.Tensor, torch.Tensor]:
        """The pool with its pages outermost, in place, and indices into it."""
        pool = self._engine.pool.tensor
        by_page = pool.view(*pool.shape[:2], -1, self.page_tokens, *pool.shape[3:]).movedim(2, 0)
        return by_page, torch.from_numpy(pages.astype(np.int64)).to(pool.device)
