"""`llm.decode`: answers from where `llm.prefill` stopped."""

from __future__ import annotations

from typing import ClassVar

from omniflow.errors import InternalError, TooLarge
from omniflow.roles import Activation, InvalidInput, RoleContext, method
from omniflow.types import Stream, Text
from omniflow_workers.roles.llm import MAX_TOKENS
from omniflow_workers.roles.llm_answer import answer_request
from omniflow_workers.roles.llm_engine import LlmEngine
from omniflow_workers.roles.llm_options import LlmOptions
from omniflow_workers.roles.llm_prefilled import Prefilled
from omniflow_workers.roles.llm_prompt import wanted_by


class LlmDecode(LlmEngine):
    """Answers prompts whose KV another worker has computed: reads it in place on the same host, has it sent from
    another one, and computes it itself when it is gone."""

    name: ClassVar[str] = "llm.decode"

    def load(self, context: RoleContext) -> None:
        """Maps the model's weights, converting them first when the cache has none."""
        options = context.parse(LlmOptions)
        self._reuse = options.reuse
        self.open(options, context)

    @method(resumable=True)
    def chat(
        self,
        prompt: Prefilled,
        *,
        max_tokens: int = MAX_TOKENS,
        min_tokens: int = 0,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        stop: tuple[str, ...] = (),
    ) -> Stream[Text]:
        """Answers a prompt of `llm.prefill`, in the words that `llm.chat` would use. The parameters are those of
        `llm.chat`, and so are the features reported.

        When its worker is lost, another one goes on in mid-sentence, from the tokens of what was read.
        """
        raise InternalError("the engine serves `chat`", cure="submit a flow that uses it")

    def begin(self, activation: Activation) -> None:
        wanted, prompt = wanted_by(activation), activation.value("prompt")
        tokens, service = self._tokens_of(prompt), self._service
        request = answer_request(activation, tokens, wanted, service.loop.capacity, service.tokenizer.decode)
        like_ours = (prompt.layout, prompt.page_tokens) == (service.pages.layout, service.pages.page_tokens)
        self.submit(request, handed_over=prompt.pages > 0 and like_ours)

    def _tokens_of(self, prompt: Prefilled) -> list[int]:
        if prompt.model != self.model.fingerprint:
            raise InvalidInput(
                "prompt",
                f"was made for other weights ({prompt.model[:12]}) than {self.model.name}, which is served here",
                cure="give `llm.prefill` and `llm.decode` the same `model` in the cluster file",
            )
        tokens = prompt.ids
        if not 0 < len(tokens) < self._service.loop.capacity:
            raise TooLarge(
                f"the prompt has {len(tokens):,} tokens; here it may have 1 to {self._service.loop.capacity - 1:,}",
                field="prompt",
                cure="give `llm.decode` as many `kv_bytes` as `llm.prefill`",
            )
        return tokens
