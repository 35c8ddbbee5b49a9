"""`llm`: answers questions, on the torch engine."""

from __future__ import annotations

from omniflow.errors import InternalError
from omniflow.roles import Activation, RoleContext, method
from omniflow.types import Stream, Text
from omniflow_workers.roles.llm_answer import answer_request
from omniflow_workers.roles.llm_engine import LlmEngine
from omniflow_workers.roles.llm_options import LlmOptions
from omniflow_workers.roles.llm_prompt import asked_by, wanted_by

MAX_TOKENS = 256
"""Of an answer, where nothing is said."""


class Llm(LlmEngine):
    """Answers questions in words, several at once; what two prompts begin with alike is computed once, here or by
    another worker."""

    def load(self, context: RoleContext) -> None:
        """Maps the model's weights, converting them first when the cache has none."""
        options = context.parse(LlmOptions)
        self._reuse = options.reuse
        self.open(options, context)

    @method(resumable=True)
    def chat(
        self,
        question: Text,
        context: Text | None = None,
        *,
        system: str = "",
        max_tokens: int = MAX_TOKENS,
        min_tokens: int = 0,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        stop: tuple[str, ...] = (),
    ) -> Stream[Text]:
        """Answers `question`, with `context` (a page that was read, say) before it in the prompt.

        `system`: the system message, the model's own when empty; `max_tokens`: length of the answer at most;
        `min_tokens`: the model may not end it before (a `stop` text may); `temperature`: 0 takes the likeliest token;
        `top_p`, `top_k`: draw from the likeliest only (1 and 0: from all); `seed`: of the draws, 0 for the job's;
        `stop`: texts that end the answer, and are no part of it.

        When its worker is lost, another one goes on in mid-sentence, from the tokens of what was read.

        Features reported: `prompt_tokens`; of these `reused_tokens` (from earlier prompts here), `mapped_tokens` (read
        where they lie, in another worker's pages), `pulled_tokens` (sent by another worker) and `computed_tokens`; of
        the answer `generated_tokens` and `resumed_tokens` (those that a lost worker had generated).
        """
        raise InternalError("the engine serves `chat`", cure="submit a flow that uses it")

    def begin(self, activation: Activation) -> None:
        asked, wanted = asked_by(activation), wanted_by(activation)
        tokens, service = self._prompts.tokens(asked), self._service
        self.submit(answer_request(activation, tokens, wanted, service.loop.capacity, service.tokenizer.decode))
