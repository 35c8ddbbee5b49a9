"""An answer on its way to its activation, in frames that another attempt can go on after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from omniflow.roles import Activation, with_state
from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.sequence import Sequence as TokenSequence
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.roles.llm_prompt import Wanted

_ID = np.dtype("<u4")


def answer_request(
    activation: Activation,
    tokens: list[int],
    wanted: Wanted,
    capacity: int,
    decode: Callable[[Sequence[int]], str],
) -> Request:
    """The answer to the prompt of these ids, as `activation` asks for it.

    `capacity`: tokens of the longest sequence, prompt and answer together.
    """
    sequence = TokenSequence(
        name=f"{activation.job}/{activation.node}",
        tokens=tokens,
        max_new_tokens=min(wanted.max_tokens, capacity - len(tokens)),
        sampling=wanted.sampling,
        tenant=activation.tenant,
    )
    said = [_tokens(state) for state in activation.resumed]
    return Request(sequence, IncrementalText(decode, wanted.stop), _Answer(activation), said)


def report(activation: Activation, summary: Summary) -> None:
    """Puts in its features what the prompt and the answer took."""
    activation.features.update(
        prompt_tokens=float(summary.prompt_tokens),
        reused_tokens=float(summary.reused_tokens),
        mapped_tokens=float(summary.mapped_tokens),
        pulled_tokens=float(summary.pulled_tokens),
        computed_tokens=float(summary.computed_tokens),
    )


class _Answer:
    """Hands an answer to its activation."""

    def __init__(self, activation: Activation) -> None:
        self._activation = activation

    @property
    def cancelled(self) -> bool:
        return self._activation.cancelled

    def text(self, pieces: list[Piece]) -> int:
        return self._activation.emit([with_state(piece.text, _state(piece.tokens)) for piece in pieces])

    def done(self, summary: Summary) -> None:
        report(self._activation, summary)
        self._activation.features.update(
            generated_tokens=float(summary.generated_tokens),
            resumed_tokens=float(summary.resumed_tokens),
        )
        self._activation.finish()

    def failed(self, error: Exception) -> None:
        self._activation.fail(error)


def _state(tokens: tuple[int, ...]) -> bytes:
    """The resume state of a frame: the ids drawn since the one before it, 4 bytes each."""
    return np.asarray(tokens, _ID).tobytes()


def _tokens(state: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(state, _ID).tolist())
