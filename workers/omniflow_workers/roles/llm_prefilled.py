"""What `llm.prefill` says to `llm.decode`."""

from __future__ import annotations

import numpy as np

from omniflow.types import Tensor, record


@record
class Prefilled:
    """A prompt, and who has the KV of its first pages. It is small: the pages stay where they are until they are read.

    `tokens`: the prompt's ids, uint32, shape (n,); `pages`: so many full pages of `page_tokens` tokens are computed, at
    `worker`; `model`, `layout`: fingerprint of its weights, and how its KV lies. The draws need nothing more: their
    seed is the job's, and they count from the prompt's end.
    """

    tokens: Tensor
    model: str
    layout: str
    page_tokens: int
    pages: int
    worker: str

    @property
    def ids(self) -> list[int]:
        """The prompt's ids."""
        ids: list[int] = self.tokens.array().tolist()
        return ids


def tensor_of(ids: list[int]) -> Tensor:
    """Ids as `Prefilled.tokens` has them."""
    return Tensor.from_array(np.asarray(ids, np.uint32))
