"""The real model: what the engine says is what `generate` says."""

from __future__ import annotations

import pytest
import torch

from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.sequence import Sequence
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.engines.torch.service import open_service
from omniflow_workers.weights.cache import default_folder
from omniflow_workers.weights.source import locate

QUESTIONS = ["What is the capital of France?", "Count from one to five.", "Say something about the sea."]


class Heard:
    cancelled = False

    def __init__(self) -> None:
        self.said = ""
        self.summary: Summary | None = None

    def text(self, pieces: list[Piece]) -> int:
        self.said += "".join(piece.text for piece in pieces)
        return len(pieces)

    def done(self, summary: Summary) -> None:
        self.summary = summary

    def failed(self, error: Exception) -> None:
        raise error


@pytest.mark.models
@pytest.mark.timeout(400)  # the first run on a machine converts the weights
def test_answers_are_those_of_generate() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    service = open_service("smollm2-135m-instruct", default_folder())
    path = locate("smollm2-135m-instruct").path
    where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    asked = []
    for question in QUESTIONS:
        conversation = [{"role": "user", "content": question}]
        prompt = service.tokenizer.chat(conversation)
        assert prompt == tokenizer.apply_chat_template(conversation, add_generation_prompt=True)["input_ids"]
        heard = Heard()
        sequence = Sequence(question, prompt, 24)
        service.loop.add(Request(sequence, IncrementalText(service.tokenizer.decode), heard))
        asked.append((sequence, heard))
    while service.loop.active:
        service.loop.step()
    for sequence, heard in asked:
        prompt = sequence.tokens[: sequence.prompt_tokens]
        ids = torch.tensor([prompt])
        found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
        assert sequence.tokens == found[0].tolist()
        assert heard.said == tokenizer.decode(found[0, len(prompt) :], skip_special_tokens=True)
    assert "Paris" in asked[0][1].said
