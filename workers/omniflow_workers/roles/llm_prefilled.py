"""What `llm.prefill` says to `llm.decode`."""

from __future__ import annotations

import numpy as np

from omniflow.types import Tensor, record


@record
class Prefilled:
    """A prompt whose first pages are computed. It is small: they stay where they are until they are read, and are found
    by their keys, which follow from what is here.

    `tokens`: the prompt's ids, uint32, shape (n,); `pages`: so many full pages of `page_tokens` tokens are computed;
    `model`, `layout`: fingerprint of the weights, and how the KV lies. The draws need nothing more: their seed is the
    job's, and they count from the prompt's end.

    It does not say who has the pages: whoever computes them again, after a loss, must say the same.
    """

    tokens: Tensor
    model: str
    layout: str
    page_tokens: int
    pages: int

    @property
    def ids(self) -> list[int]:
        """The prompt's ids."""
        ids: list[int] = self.tokens.array().tolist()
        return ids


def tensor_of(ids: list[int]) -> Tensor:
    """Ids as `Prefilled.tokens` has them."""
    return Tensor.from_array(np.asarray(ids, np.uint32))
