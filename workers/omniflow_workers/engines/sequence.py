"""One sequence on its way through the engine: what was asked, what is computed, what was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omniflow_core import KeyChain, PageRun
from omniflow_workers.engines.base import SamplingParams


def page_ids(run: PageRun) -> NDArray[np.uint32]:
    """The page ids of a run as it is now, shape (pages,)."""
    return np.frombuffer(memoryview(run), np.uint32)


def no_pages() -> NDArray[np.uint32]:
    """Shape (0,)."""
    return np.zeros(0, np.uint32)


class BorrowedPages(Protocol):
    """Pages of another worker that lie in the pool that this one maps too: the beginning of a sequence, used in place.

    Whoever holds it lets go of it by `release`, once; renewing it meanwhile is its own affair.
    """

    @property
    def pages(self) -> NDArray[np.uint32]:
        """Their ids in the pool, shape (pages,)."""

    def verify(self) -> None:
        """Raises `StalePage` when one of them may hold other content by now."""

    def release(self) -> None: ...


class Phase(Enum):
    """Where a sequence is. WAITING holds no page of its own, and ENDED gave them back; the others hold some. PREFILLED
    is for one that draws nothing: it is done, and holds its pages until it is ended."""

    WAITING = auto()
    PREFILLING = auto()
    DECODING = auto()
    PREFILLED = auto()
    ENDED = auto()


@dataclass(eq=False, slots=True)
class Sequence:
    """Mutable state of one sequence, changed by `Planner` only once it is queued there.

    `tokens`: prompt and answer so far; `computed`: how many of them have their KV in `pages`; `reused`, `pulled`,
    `mapped`: how many of the prompt, when it was first admitted, came from the prefix index, had been pulled into it
    for this sequence, or lie in `borrowed`; `chain`: page keys of `tokens[:computed]`; `source`: pages of others that
    must be copied to the beginning of its own before it is computed further; `borrowed`: pages of another worker that
    it may begin with, `first` those of them that it does, before those of `run`; `kept`: holds pages in the index until
    it is admitted.

    With `max_new_tokens` 0 the prompt is computed and nothing is drawn.
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
    pulled: int = 0
    mapped: int = 0
    preemptions: int = 0
    run: PageRun | None = None
    source: PageRun | None = None
    chain: KeyChain | None = None
    borrowed: BorrowedPages | None = None
    kept: PageRun | None = None
    first: NDArray[np.uint32] = field(default_factory=no_pages)
    pages: NDArray[np.uint32] = field(default_factory=no_pages)

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.tokens)

    @property
    def generated(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def draws(self) -> bool:
        """Whether an answer is wanted."""
        return self.max_new_tokens > 0

    @property
    def final_tokens(self) -> int:
        """How long it can get."""
        return self.prompt_tokens + self.max_new_tokens
