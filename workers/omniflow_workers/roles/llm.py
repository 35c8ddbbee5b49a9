"""`llm`: answers questions, on the torch engine."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from omniflow.errors import InternalError
from omniflow.roles import Activation, EngineRole, QueueClosed, ReadyQueue, RoleContext, method, with_state
from omniflow.types import Stream, Text
from omniflow_workers.engines.base import KvLayout, ModelFacts
from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.planner import Limits
from omniflow_workers.engines.sequence import Sequence
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.roles.llm_prompt import Prompts, asked_by

_IDLE_SECONDS = 3600.0  # waiting costs nothing: the queue wakes us
_RETRY_SECONDS = 0.005  # when all that is left to do is to offer text again
_MAX_TOKENS = 256
_ID = np.dtype("<u4")


class LlmOptions(BaseModel):
    """The role's part of the cluster file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(default="smollm2-135m-instruct", description="a short name, a GGUF file, or a model folder")
    threads: int | None = Field(default=None, ge=1, description="CPU threads of the engine; None: torch's choice")
    page_tokens: int = Field(default=16, ge=1, le=1024)
    kv_bytes: int = Field(default=512 * 1024 * 1024, ge=1, description="size of the KV pool; taken as it is used")
    running: int = Field(default=16, ge=1, description="answers given at once")
    step_tokens: int = Field(default=512, ge=1, description="most tokens of one step")
    mixed_tokens: int = Field(default=256, ge=1, description="most prompt tokens of a step that others wait for too")


class Llm(EngineRole):
    """Answers questions in words, several at once; what two prompts begin with alike is computed once."""

    def load(self, context: RoleContext) -> None:
        """Maps the model's weights, converting them first when the cache has none."""
        options = context.parse(LlmOptions)
        self._options = options
        # Torch comes with this import: only a worker that serves the role pays for it.
        from omniflow_workers.engines.torch.converting import in_child
        from omniflow_workers.engines.torch.service import open_service

        self._service = open_service(
            options.model,
            context.cache,
            device=context.device,
            threads=options.threads,
            page_tokens=options.page_tokens,
            kv_bytes=options.kv_bytes,
            limits=Limits(options.running, options.step_tokens, options.mixed_tokens),
            converting=in_child,
        )
        self._prompts = Prompts(self._service.tokenizer, self._service.loop.capacity)

    def unload(self) -> None:
        """Lets go of the weights: the last role of the process that holds them frees them."""
        self._service.weights.release()

    @property
    def model(self) -> ModelFacts:
        """Name, fingerprint and limits of the loaded model."""
        return self._service.facts

    @property
    def layout(self) -> KvLayout:
        """How the KV of the loaded model lies in its pages."""
        return self._service.layout

    @method(resumable=True)
    def chat(
        self,
        question: Text,
        context: Text | None = None,
        *,
        system: str = "",
        max_tokens: int = _MAX_TOKENS,
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

        Features reported: `prompt_tokens`, `reused_tokens` (of these, taken from earlier prompts), `generated_tokens`,
        and `resumed_tokens` (of the answer, those that a lost worker had generated).
        """
        raise InternalError("the engine serves `chat`", cure="submit a flow that uses it")

    def serve(self, ready: ReadyQueue) -> None:
        """Steps the engine while there are answers to give, and waits for questions when there are none."""
        loop = self._service.loop
        open_ = True
        while open_ or loop.active:
            room = 2 * self._options.running - loop.active
            if open_ and room > 0:
                wait = 0.0 if loop.computing else _RETRY_SECONDS if loop.active else _IDLE_SECONDS
                try:
                    taken = ready.take(room, wait)
                except QueueClosed:  # what has begun is finished
                    open_, taken = False, []
                for activation in taken:
                    self._begin(activation)
            loop.step()

    def _begin(self, activation: Activation) -> None:
        try:
            asked = asked_by(activation)
            tokens = self._prompts.tokens(asked)
            sequence = Sequence(
                name=f"{activation.job}/{activation.node}",
                tokens=tokens,
                max_new_tokens=min(asked.max_tokens, self._service.loop.capacity - len(tokens)),
                sampling=asked.sampling,
                tenant=activation.tenant,
            )
            text = IncrementalText(self._service.tokenizer.decode, asked.stop)
            said = [_tokens(state) for state in activation.resumed]
            self._service.loop.add(Request(sequence, text, _Answer(activation), said))
        except Exception as error:  # bad input: this activation ends, nothing else notices
            activation.fail(error)


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
        self._activation.features.update(
            prompt_tokens=float(summary.prompt_tokens),
            reused_tokens=float(summary.reused_tokens),
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
