"""A torch engine with everything around it that a role needs: pages, prefix index, planner, loop, tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from omniflow_workers.engines.base import Chunk, KvLayout, ModelFacts
from omniflow_workers.engines.loop import EngineLoop
from omniflow_workers.engines.planner import Limits, Planner
from omniflow_workers.engines.torch.converting import Converting, here
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
    pages = EnginePages(engine)
    planner = Planner(
        pages.allocator,
        pages.index,
        pages.page_tokens,
        engine.facts.context_tokens,
        pages.new_chain,
        limits or Limits(),
    )
    loop = EngineLoop(engine, planner)
    return Service(engine, planner, loop, ChatTokenizer(loaded.entry.folder), pages, loaded.held)
