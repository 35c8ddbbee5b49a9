"""The `torch` engine alone beside Hugging Face `generate` of the same weights: greedy, fp32, same threads.

Both count from the prompt's ids to the last id of the answer; ours also plans, samples by request and makes text.
Prompts are random ids, new for each measurement, so that nothing can be reused.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rows import Row, alone, compared, show

from omniflow_workers.engines import sequence as sequences
from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.engines.torch.service import Service, open_service
from omniflow_workers.weights.cache import default_folder
from omniflow_workers.weights.source import locate

MODEL = "smollm2-135m-instruct"
CONTEXTS = (64, 512)
TOGETHER = 8
ONE_REACH, TOGETHER_REACH = 1.15, 2.5  # of the engine; the whole system must reach 0.95 and 2.5
START_SECONDS = 8.0

Prompt = list[int]


@dataclass(frozen=True)
class Measured:
    """Tokens a second over all answers, and how many tokens one had, on average."""

    rate: float
    tokens: float


Measure = Callable[[Sequence[Prompt]], Measured]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="alternating measurements of each")
    parser.add_argument("--tokens", type=int, default=128, help="length of an answer at most")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads of both")
    return parser.parse_args()


@dataclass
class Answer:
    """A listener that only listens."""

    cancelled: bool = False
    tokens: int = 0

    def text(self, pieces: list[Piece]) -> int:
        return len(pieces)

    def done(self, summary: Summary) -> None:
        self.tokens = summary.generated_tokens

    def failed(self, error: Exception) -> None:
        raise error


def ours(service: Service, new: int) -> Measure:
    """Tokens per second over all prompts, asked at once."""

    def measure(prompts: Sequence[Prompt]) -> Measured:
        answers = []
        started = time.perf_counter()
        for prompt in prompts:
            answers.append(Answer())
            asked = sequences.Sequence("bench", list(prompt), new)
            service.loop.add(Request(asked, IncrementalText(service.tokenizer.decode), answers[-1]))
        while service.loop.active:
            service.loop.step()
        seconds = time.perf_counter() - started
        generated = sum(answer.tokens for answer in answers)
        return Measured(generated / seconds, generated / len(answers))

    return measure


def theirs(new: int) -> Measure:
    """Tokens per second of `generate` for the first prompt alone."""
    from transformers import AutoModelForCausalLM

    path = locate(MODEL).path
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32, local_files_only=True
    )

    def measure(prompts: Sequence[Prompt]) -> Measured:
        ids = torch.tensor([prompts[0]])
        started = time.perf_counter()
        with torch.inference_mode():
            found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False)
        seconds = time.perf_counter() - started
        generated = int(found.shape[1]) - ids.shape[1]
        return Measured(generated / seconds, generated)

    return measure


def compare(context: int, pairs: int, engine: Measure, peer: Measure, vocabulary: int) -> list[Row]:
    draw = random.Random(context)
    one: list[Measured] = []
    together: list[Measured] = []
    reference: list[Measured] = []
    for _ in range(pairs):
        prompts = [[draw.randrange(100, vocabulary) for _ in range(context)] for _ in range(TOGETHER)]
        reference.append(peer(prompts))
        one.append(engine(prompts[:1]))
        # The first prompt is known by now: another one in its place.
        prompts[0] = [draw.randrange(100, vocabulary) for _ in range(context)]
        together.append(engine(prompts))
    return [
        _row(f"engine, 1 answer, context {context}", one, reference, ONE_REACH),
        _row(f"engine, {TOGETHER} answers, context {context}", together, reference, TOGETHER_REACH),
    ]


def _row(work: str, ours: list[Measured], theirs: list[Measured], reach: float) -> Row:
    length = statistics.mean(each.tokens for each in ours)
    rates = [each.rate for each in ours], [each.rate for each in theirs]
    return compared(f"{work}, answers of {length:.0f} tokens", *rates, "tokens/s", at_least=reach)


def main() -> None:
    """Prints the rows."""
    given = arguments()
    torch.set_num_threads(given.threads)
    open_service(MODEL, default_folder())  # converts the weights when this machine has never done it
    started = time.perf_counter()
    service = open_service(MODEL, default_folder(), threads=given.threads)
    opened = time.perf_counter() - started
    peer = theirs(given.tokens)
    rows = [alone("engine opened from a warm cache, imports apart", opened, "s", at_most=START_SECONDS)]
    for context in CONTEXTS:
        rows += compare(context, given.pairs, ours(service, given.tokens), peer, service.facts.vocabulary)
    show(rows)


if __name__ == "__main__":
    main()
