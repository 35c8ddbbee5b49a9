"""A torch engine with everything around it that a role needs: pages, prefix index, planner, loop, tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_core import OutOfPages
from omniflow_workers.engines.base import Chunk, KvLayout, ModelFacts
from omniflow_workers.engines.loop import EngineLoop
from omniflow_workers.engines.planner import FixedPool, Limits, Planner
from omniflow_workers.engines.sequence import page_ids
from omniflow_workers.engines.torch.converting import Converting, here
from omniflow_workers.engines.torch.disk_file import DiskOptions, open_disk_tier
from omniflow_workers.engines.torch.disk_tier import DiskTier
from omniflow_workers.engines.torch.engine import TorchEngine
from omniflow_workers.engines.torch.load import load
from omniflow_workers.engines.torch.pages import EnginePages
from omniflow_workers.engines.torch.tokenizer import ChatTokenizer
from omniflow_workers.weights.store import HeldWeights


@dataclass(frozen=True, slots=True)
class Service:
    """One loaded model, ready to answer."""

    engine: TorchEngine
    planner: Planner
    loop: EngineLoop[torch.Tensor]
    tokenizer: ChatTokenizer
    pages: EnginePages
    weights: HeldWeights
    """Released when the service is used no more."""
    disk: DiskTier | None = None
    """Closed when the service is used no more, before the pool is."""

    @property
    def facts(self) -> ModelFacts:
        return self.engine.facts

    @property
    def layout(self) -> KvLayout:
        return self.engine.layout

    def account(self, into: MemoryAccount) -> None:
        """Adds its pages to what a worker says of its memory."""
        self.pages.account(into)
        if self.disk is not None:
            self.disk.account(into.pools[-1].stored)


def open_service(
    model: str,
    cache: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    page_tokens: int = 16,
    kv_bytes: int = 512 * 1024 * 1024,
    limits: Limits | None = None,
    converting: Converting = here,
    cluster: str = "",
    disk: DiskOptions | None = None,
) -> Service:
    """Loads `model` (as `locate` takes it) with converted weights under `cache`. Raises `InvalidArgument`.

    `converting`: how, when the cache has none; in the process itself unless said otherwise. `cluster`: with whose
    workers on this host it shares a pool of KV pages, of which it may have `kv_bytes`; empty: with nobody. `disk`:
    where pages outlive the pool; None: nowhere.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    loaded = load(
        model,
        cache,
        device=device,
        page_tokens=page_tokens,
        kv_bytes=kv_bytes,
        converting=converting,
        cluster=cluster,
    )
    engine = loaded.engine
    pages = EnginePages(engine)
    share = engine.pool.share
    if share is not None:
        share.when_wanted(lambda: pages.index.evict(share.limit // 8))
    _touch_weights(engine, pages)
    limit = FixedPool(pages.allocator).limit if share is None else share.limit
    tier = None if disk is None else open_disk_tier(pages, limit, disk)
    planner = Planner(
        pages.allocator,
        pages.index,
        pages.page_tokens,
        engine.facts.context_tokens,
        pages.new_chain,
        limits or Limits(),
        share,
        tier,
    )
    loop = EngineLoop(engine, planner)
    return Service(engine, planner, loop, ChatTokenizer(loaded.entry.folder), pages, loaded.held, tier)


def _touch_weights(engine: TorchEngine, pages: EnginePages) -> None:
    """Uses every weight once, so that the first question does not wait for the disk."""
    try:
        if engine.pool.share is not None:
            engine.pool.share.grow(1)
        run = pages.allocator.allocate(1)
    except OutOfPages:  # others have the whole pool at present
        return
    with run:
        engine.compute([Chunk(np.zeros(2, np.int64), 0, page_ids(run), wants_logits=True)])
