"""A model's tokenizer and chat template, from the converted folder; without transformers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omniflow.errors import InvalidArgument
from omniflow_workers.weights import convert


class ChatTokenizer:
    """Text to ids and back, and conversations to ids. Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        import tokenizers
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / convert.TOKENIZER))
        chat = json.loads((folder / convert.CHAT).read_text())
        if not chat["template"]:
            raise InvalidArgument(
                "the model has no chat template", field="model", cure="use a model tuned for conversation"
            )
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_raise, strftime_now=_now)
        self._template = environment.from_string(chat["template"])
        self._special: dict[str, str] = chat["special"]

    def chat(self, messages: Iterable[dict[str, str]]) -> list[int]:
        """Ids of a conversation, ready for the assistant's answer. Messages have `role` and `content`."""
        text = self._template.render(messages=list(messages), add_generation_prompt=True, **self._special)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> str:
    raise InvalidArgument(f"the model's chat template refuses the conversation: {message}", field="question")


def _now(pattern: str) -> str:
    return datetime.now(UTC).strftime(pattern)
