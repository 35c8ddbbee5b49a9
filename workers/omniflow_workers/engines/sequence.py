"""One sequence on its way through the engine: what was asked, what is computed, what was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from omniflow_core import KeyChain, PageRun
from omniflow_workers.engines.base import SamplingParams


def page_ids(run: PageRun) -> NDArray[np.uint32]:
    """The page ids of a run as it is now, shape (pages,)."""
    return np.frombuffer(memoryview(run), np.uint32)


class Phase(Enum):
    """Where a sequence is. WAITING holds no page; PREFILLING and DECODING do; ENDED gave them back."""

    WAITING = auto()
    PREFILLING = auto()
    DECODING = auto()
    ENDED = auto()


@dataclass(eq=False, slots=True)
class Sequence:
    """Mutable state of one sequence, changed by `Planner` only once it is queued there.

    `tokens`: prompt and answer so far; `computed`: how many of them have their KV in `run`; `reused`: how many of the
    prompt came from the prefix index when it was first admitted; `chain`: page keys of `tokens[:computed]`;
    `source`: pages of others that must be copied to the beginning of its own before it is computed further.
    """

    name: str
    tokens: list[int]
    max_new_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    tenant: str = ""
    phase: Phase = Phase.WAITING
    prompt_tokens: int = field(init=False)
    computed: int = 0
    reused: int = 0
    preemptions: int = 0
    run: PageRun | None = None
    source: PageRun | None = None
    chain: KeyChain | None = None
    pages: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.tokens)

    @property
    def generated(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def final_tokens(self) -> int:
        """How long it can get."""
        return self.prompt_tokens + self.max_new_tokens
