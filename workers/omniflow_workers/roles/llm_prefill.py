"""`llm.prefill`: computes prompts, for `llm.decode` to go on from."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from omniflow.errors import InternalError
from omniflow.roles import Activation, RoleContext, method
from omniflow.types import Text
from omniflow_core import PageKeys
from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.sequence import Sequence
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.roles.llm_answer import report
from omniflow_workers.roles.llm_engine import LlmEngine
from omniflow_workers.roles.llm_options import PrefillOptions
from omniflow_workers.roles.llm_prefilled import Prefilled, tensor_of
from omniflow_workers.roles.llm_prompt import asked_by
from omniflow_workers.stop_at import stop_at


class LlmPrefill(LlmEngine):
    """Computes the KV of prompts. It stays in this worker's pages until whoever decodes has it."""

    name: ClassVar[str] = "llm.prefill"

    def load(self, context: RoleContext) -> None:
        """Maps the model's weights, converting them first when the cache has none."""
        options = context.parse(PrefillOptions)
        self._hand_over_s = options.hand_over_s
        self.open(options, context)

    @method
    def chat(self, question: Text, context: Text | None = None, *, system: str = "") -> Prefilled:
        """Computes the prompt of `question`, with `context` (a page that was read, say) before it, all but its last
        page: the scores after it, which the answer's first token needs, are computed where that is drawn.

        `system`: the system message, the model's own when empty.

        Features reported: `prompt_tokens` (of full pages), and of these `reused_tokens` and `computed_tokens`.
        """
        raise InternalError("the engine serves `chat`", cure="submit a flow that uses it")

    def begin(self, activation: Activation) -> None:
        tokens = self._prompts.tokens(asked_by(activation))
        pages = self._service.pages
        full = (len(tokens) - 1) // pages.page_tokens
        chain = pages.new_chain(activation.tenant)
        chain.extend(np.asarray(tokens[: full * pages.page_tokens], np.int64))
        prompt = _Prompt(self, activation, tokens, chain.keys)
        if pages.known(chain, full) == full:
            length = full * pages.page_tokens
            prompt.done(Summary(length, length, 0, 0, 0, 0, "prompt"))
            return
        sequence = Sequence(
            name=f"{activation.job}/{activation.node}",
            tokens=tokens[: full * pages.page_tokens],
            max_new_tokens=0,
            tenant=activation.tenant,
        )
        self.submit(Request(sequence, IncrementalText(self._service.tokenizer.decode), prompt))

    def hand_over(self, activation: Activation, tokens: list[int], keys: PageKeys) -> None:
        """Holds the computed pages for whoever decodes, and says where they are."""
        pages = self._service.pages
        run = pages.keep(keys, len(keys))  # all of them, but for pages that others needed more
        seconds = min(self._hand_over_s, activation.remaining_ms / 1000)
        prefilled = Prefilled(tensor_of(tokens), pages.model, pages.layout, pages.page_tokens, len(keys))
        if len(run):
            pages.hand_overs.hold(keys[: len(run)], run, seconds, lambda: activation.job_over)
        activation.finish_with(prefilled)
        stop_at("llm-prefill-handed-over")


class _Prompt:
    """Hands a prompt that was computed to its activation."""

    def __init__(self, role: LlmPrefill, activation: Activation, tokens: list[int], keys: PageKeys) -> None:
        self._role = role
        self._activation = activation
        self._tokens = tokens
        self._keys = keys

    @property
    def cancelled(self) -> bool:
        return self._activation.cancelled

    def text(self, pieces: list[Piece]) -> int:
        raise InternalError("a prompt without an answer has no text", cure="report this")

    def done(self, summary: Summary) -> None:
        report(self._activation, summary)
        self._role.hand_over(self._activation, self._tokens, self._keys)

    def failed(self, error: Exception) -> None:
        self._activation.fail(error)
