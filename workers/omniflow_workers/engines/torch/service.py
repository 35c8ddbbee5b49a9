"""A torch engine with everything around it that a role needs: pages, prefix index, planner, loop, tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from omniflow_core import KeyChain, PageAllocator, PrefixIndex
from omniflow_workers.engines.base import Chunk, KvLayout, ModelFacts
from omniflow_workers.engines.loop import EngineLoop
from omniflow_workers.engines.planner import Limits, Planner
from omniflow_workers.engines.torch.converting import Converting, here
from omniflow_workers.engines.torch.engine import TorchEngine
from omniflow_workers.engines.torch.load import load
from omniflow_workers.engines.torch.tokenizer import ChatTokenizer
from omniflow_workers.weights.store import HeldWeights


@dataclass(frozen=True, slots=True)
class Service:
    """One loaded model, ready to answer."""

    engine: TorchEngine
    planner: Planner
    loop: EngineLoop[torch.Tensor]
    tokenizer: ChatTokenizer
    weights: HeldWeights
    """Released when the service is used no more."""

    @property
    def facts(self) -> ModelFacts:
        return self.engine.facts

    @property
    def layout(self) -> KvLayout:
        return self.engine.layout


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
) -> Service:
    """Loads `model` (as `locate` takes it) with converted weights under `cache`. Raises `InvalidArgument`.

    `converting`: how, when the cache has none; in the process itself unless said otherwise.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    loaded = load(model, cache, device=device, page_tokens=page_tokens, kv_bytes=kv_bytes, converting=converting)
    engine = loaded.engine
    # Touches every weight once, so that the first question does not wait for the disk.
    engine.compute([Chunk(np.zeros(2, np.int64), 0, np.ones(2, np.uint32), wants_logits=True)])
    planner = _planner(engine, limits or Limits())
    return Service(engine, planner, EngineLoop(engine, planner), ChatTokenizer(loaded.entry.folder), loaded.held)


def _planner(engine: TorchEngine, limits: Limits) -> Planner:
    facts, layout = engine.facts, engine.layout
    allocator = PageAllocator(engine.pool.pages)
    described = layout.describe()

    def new_chain(tenant: str) -> KeyChain:
        return KeyChain(facts.fingerprint, described, layout.page_tokens, tenant.encode())

    return Planner(allocator, PrefixIndex(allocator), layout.page_tokens, facts.context_tokens, new_chain, limits)
