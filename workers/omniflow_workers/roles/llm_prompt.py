"""From an activation of `llm` to the ids of its prompt; what is wrong with it is said here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from omniflow.errors import TooLarge
from omniflow.roles import Activation, InvalidInput
from omniflow_workers.engines.base import SamplingParams

_LONGEST_TOKEN = 64
"""Characters that one token stands for at most, generously: beyond it a text need not be tokenised to be too long."""


class Tokenizer(Protocol):
    def chat(self, messages: Iterable[dict[str, str]]) -> list[int]:
        """Ids of a conversation, ready for the assistant's answer. Messages have `role` and `content`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, checked."""

    question: str
    context: str
    system: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an answer shall be like, checked."""

    max_tokens: int
    sampling: SamplingParams
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prompts:
    """`capacity`: tokens of the longest sequence, prompt and answer together."""

    tokenizer: Tokenizer
    capacity: int

    def tokens(self, asked: Asked) -> list[int]:
        """The prompt's ids. Raises `TooLarge` naming the input and the limit."""
        characters = len(asked.question) + len(asked.context) + len(asked.system)
        if characters > self.capacity * _LONGEST_TOKEN:
            raise self._too_long(asked, f"{characters:,} characters")
        tokens = self.tokenizer.chat(messages(asked))
        if len(tokens) >= self.capacity:
            raise self._too_long(asked, f"{len(tokens):,} tokens")
        return tokens

    def _too_long(self, asked: Asked, length: str) -> TooLarge:
        parts = {"question": asked.question, "context": asked.context, "system": asked.system}
        longest = max(parts, key=lambda name: len(parts[name]))
        return TooLarge(
            f"the prompt has {length}; the model takes {self.capacity - 1:,} tokens and must have room to answer",
            field=longest,
            cure=f"shorten `{longest}`",
        )


def messages(asked: Asked) -> list[dict[str, str]]:
    """The conversation. The context comes first: a second question about it then begins with the same tokens."""
    content = asked.question
    if context := asked.context.strip():
        content = f"{context}\n\n{asked.question}"
    system = [{"role": "system", "content": asked.system}] if asked.system else []
    return [*system, {"role": "user", "content": content}]


def asked_by(activation: Activation) -> Asked:
    """What an activation asks. Raises `InvalidInput` naming the input that is wrong."""
    question = activation.value("question")
    if not question.strip():
        raise InvalidInput("question", "the question is empty", cure="ask something")
    return Asked(question, activation.value("context") or "", activation.parameters["system"])


def wanted_by(activation: Activation) -> Wanted:
    """How an activation wants its answer. Raises `InvalidInput` naming the parameter that is wrong."""
    given = activation.parameters
    _check("max_tokens", given["max_tokens"], given["max_tokens"] >= 1, "at least 1")
    least, most = given["min_tokens"], given["max_tokens"]
    _check("min_tokens", least, 0 <= least <= most, f"0 to max_tokens, which is {most}")
    temperature = given["temperature"]
    _check("temperature", temperature, math.isfinite(temperature) and temperature >= 0, "0 or more")
    _check("top_p", given["top_p"], 0 < given["top_p"] <= 1, "above 0 and at most 1")
    _check("top_k", given["top_k"], given["top_k"] >= 0, "0 (no limit) or more")
    return Wanted(
        max_tokens=given["max_tokens"],
        sampling=SamplingParams(
            temperature, given["top_p"], given["top_k"], given["seed"] or activation.seed, min_tokens=least
        ),
        stop=tuple(given["stop"]),
    )


def _check(name: str, value: float, right: bool, wanted: str) -> None:
    if not right:
        raise InvalidInput(name, f"{name} is {value}", cure=f"give {wanted}")
