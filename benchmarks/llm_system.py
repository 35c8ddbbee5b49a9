"""The `llm` role through the whole system (client, gRPC, scheduler, worker) beside Hugging Face `generate`.

Greedy, fp32, the same prompts, both from text to text, all answers of one length (the model may not end them earlier:
their prompts are noise, to which it has little to say). Prompts are random words, new for each measurement: nothing but
the chat template's first page is ever reused.
"""

import argparse
import random
import statistics
import time
from dataclasses import dataclass

import uvloop
from clusters import RunningCluster, running
from peer_process import Peer, hugging_face
from rows import Row, compared, show

from omniflow.client import Client
from omniflow_workers.weights.source import locate

CONTEXTS = (64, 512)
TOGETHER = 8
ONE_AT_LEAST, TOGETHER_AT_LEAST = 0.95, 2.5
# The chat template adds about so many tokens to a question.
TEMPLATE_TOKENS = 30
WORDS = ["time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school"]


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="alternating measurements")
    parser.add_argument("--tokens", type=int, default=128, help="length of an answer")
    return parser.parse_args()


def question(dice: random.Random, context: int) -> str:
    """About `context` tokens with its template: each word is one."""
    return " ".join(dice.choice(WORDS) for _ in range(max(1, context - TEMPLATE_TOKENS)))


@dataclass(frozen=True)
class Measured:
    """Tokens a second over all answers, the answers, and how many tokens one had, on average."""

    rate: float
    answers: list[str]
    tokens: float


async def ask(cluster: RunningCluster, questions: list[str], tokens: int) -> Measured:
    """All questions at once."""
    async with Client(cluster.state.address) as client:
        await client.signature_of("chat", b"")
        length = {"llm.chat.max_tokens": tokens, "llm.chat.min_tokens": tokens}
        started = time.perf_counter()
        jobs = [await client.submit("chat", {"question": each}, parameters=length) for each in questions]
        answers = ["".join((await job.result())["result"]) for job in jobs]
        seconds = time.perf_counter() - started
    generated = sum(
        activation.features["generated_tokens"]
        for job in jobs
        if job.report is not None
        for activation in job.report.activations
    )
    return Measured(generated / seconds, answers, generated / len(questions))


def compare(cluster: RunningCluster, peer: Peer, context: int, pairs: int, tokens: int) -> list[Row]:
    """One job at a time, and eight at once, both against one call of `generate` at a time."""
    dice = random.Random(context)
    one: list[Measured] = []
    together: list[Measured] = []
    reference: list[float] = []
    same = 0
    for _ in range(pairs):
        asked = question(dice, context)
        theirs = peer.order(question=asked, tokens=tokens)
        reference.append(theirs["tokens"] / theirs["seconds"])
        one.append(uvloop.run(ask(cluster, [asked], tokens)))
        same += one[-1].answers == [theirs["text"]]
        together.append(uvloop.run(ask(cluster, [question(dice, context) for _ in range(TOGETHER)], tokens)))
    work = f"llm through the system, context {context}"
    return [
        _row(f"{work}, 1 job ({same}/{pairs} same text)", one, reference, ONE_AT_LEAST),
        _row(f"{work}, {TOGETHER} jobs", together, reference, TOGETHER_AT_LEAST),
    ]


def _row(work: str, ours: list[Measured], theirs: list[float], reach: float) -> Row:
    length = statistics.mean(each.tokens for each in ours)
    rates = [each.rate for each in ours]
    return compared(f"{work}, answers of {length:.0f} tokens", rates, theirs, "tokens/s", at_least=reach)


def main() -> None:
    """Prints the rows."""
    given = arguments()
    rows: list[Row] = []
    with running("benchmarks/chat/cluster.yaml") as cluster, hugging_face(locate("smollm2-135m-instruct").path) as peer:
        for context in CONTEXTS:
            compare(cluster, peer, context, 1, given.tokens)  # warm
            rows += compare(cluster, peer, context, given.pairs, given.tokens)
    show(rows)


if __name__ == "__main__":
    main()
