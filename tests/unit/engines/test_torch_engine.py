"""The engine gives the ids that Hugging Face's `generate` gives, whoever shares its batch and whatever is reused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from omniflow.errors import InternalError
from omniflow_workers.engines.base import SamplingParams
from omniflow_workers.engines.loop import Piece, Request, Summary
from omniflow_workers.engines.planner import Limits
from omniflow_workers.engines.sequence import Sequence, page_ids
from omniflow_workers.engines.text import IncrementalText
from omniflow_workers.engines.torch.converting import here
from omniflow_workers.engines.torch.huggingface import HuggingFaceDecoder
from omniflow_workers.engines.torch.llama import LlamaDecoder
from omniflow_workers.engines.torch.service import Service, open_service

Models = Callable[[str], Path]


class Heard:
    """Collects an answer."""

    def __init__(self, room: int = 1000) -> None:
        self.pieces: list[Piece] = []
        self.summary: Summary | None = None
        self.error: Exception | None = None
        self.cancelled = False
        self.room = room

    @property
    def said(self) -> list[str]:
        return [piece.text for piece in self.pieces]

    def text(self, pieces: list[Piece]) -> int:
        taken = pieces[: self.room]
        self.pieces += taken
        return len(taken)

    def done(self, summary: Summary) -> None:
        self.summary = summary

    def failed(self, error: Exception) -> None:
        self.error = error


def prompts(count: int, vocabulary: int, seed: int = 0) -> list[list[int]]:
    """Prompts of unequal lengths, none of them with special ids."""
    draw = random.Random(seed)
    return [[draw.randrange(4, vocabulary) for _ in range(draw.randrange(1, 90))] for _ in range(count)]


def ask(
    service: Service,
    prompt: list[int],
    new: int = 12,
    sampling: SamplingParams | None = None,
    stop: tuple[str, ...] = (),
    listener: Heard | None = None,
    said: list[tuple[int, ...]] | None = None,
) -> tuple[Sequence, Heard]:
    sequence = Sequence("s", list(prompt), new, sampling or SamplingParams())
    heard = listener or Heard()
    service.loop.add(Request(sequence, IncrementalText(service.tokenizer.decode, stop), heard, said or []))
    return sequence, heard


def finish(service: Service) -> None:
    while service.loop.active:
        service.loop.step()
    service.planner.check()


def answer(service: Service, *args: Any, **kwargs: Any) -> list[int]:
    sequence, heard = ask(service, *args, **kwargs)
    finish(service)
    assert heard.error is None
    return sequence.tokens[sequence.prompt_tokens :]


def heard_of(service: Service, *args: Any, **kwargs: Any) -> Heard:
    _, heard = ask(service, *args, **kwargs)
    finish(service)
    assert heard.error is None
    return heard


def reference(folder: Path, prompt: list[int], new: int) -> list[int]:
    """Greedy ids of `generate` on the same weights."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([prompt])
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, pad_token_id=0
    )
    tokens: list[int] = found[0, len(prompt) :].tolist()
    return tokens


@pytest.fixture
def service(models: Models, cache: Path) -> Service:
    return fresh(models("llama"), cache)


def fresh(folder: Path, cache: Path, pages: int = 200, limits: Limits | None = None) -> Service:
    page_bytes = 3072  # of the tiny Llama
    return open_service(
        str(folder), cache, page_tokens=8, kv_bytes=pages * page_bytes, limits=limits or Limits(8, 64, 32)
    )


@pytest.mark.parametrize(
    ("family", "decoder"),
    [
        ("llama", LlamaDecoder),
        ("qwen2", LlamaDecoder),
        ("qwen3", LlamaDecoder),
        ("gpt_neox", HuggingFaceDecoder),
    ],
)
def test_greedy_ids_are_those_of_generate(family: str, decoder: type, models: Models, cache: Path) -> None:
    folder = models(family)
    service = fresh(folder, cache)
    assert isinstance(service.engine.decoder, decoder)
    for prompt in prompts(3, service.facts.vocabulary):
        assert answer(service, prompt) == reference(folder, prompt, 12)


def test_a_llama_through_attention_interface_gives_the_same_scores(models: Models, cache: Path) -> None:
    import json

    from omniflow_workers.engines.base import Chunk
    from omniflow_workers.engines.torch import load
    from omniflow_workers.engines.torch.engine import TorchEngine
    from omniflow_workers.engines.torch.pool import KvPool
    from omniflow_workers.weights import convert, format
    from omniflow_workers.weights.cache import WeightsCache
    from omniflow_workers.weights.source import locate

    source = locate(str(models("llama")))
    fingerprint, entry = convert.prepare(source, WeightsCache(cache), here(source))
    config = json.loads(entry.file(convert.CONFIG).read_text())
    weights = format.read(entry.file(convert.WEIGHTS))
    facts, layout = load.facts_of(source, fingerprint, config), load.layout_of(config, 8)
    chunks = [
        Chunk(np.arange(10, 30), 0, np.array([3, 1, 2], np.uint32), wants_logits=True),
        Chunk(np.arange(40, 45), 0, np.array([7], np.uint32), wants_logits=True),
    ]
    short = load.decoder_of(config, weights, "cpu")
    general = load.decoder_of({k: v for k, v in config.items() if k != "omniflow_llama"}, weights, "cpu")
    assert isinstance(general, HuggingFaceDecoder)
    scores = [
        TorchEngine(facts, decoder, KvPool(layout, 9, torch.device("cpu"))).compute(chunks)
        for decoder in (short, general)
    ]
    torch.testing.assert_close(scores[0], scores[1], rtol=1e-4, atol=1e-4)


def test_a_batch_of_unequal_sequences_gives_what_each_gives_alone(models: Models, cache: Path) -> None:
    asked = prompts(8, 200, seed=1)
    alone = [answer(fresh(models("llama"), cache), prompt) for prompt in asked]
    service = fresh(models("llama"), cache)
    together = [ask(service, prompt)[0] for prompt in asked]
    finish(service)
    assert [each.tokens[each.prompt_tokens :] for each in together] == alone


def test_reused_pages_give_what_computing_gives(service: Service, models: Models, cache: Path) -> None:
    start = prompts(1, 200, seed=2)[0] * 3
    first = answer(service, start)
    turn = [*start, *first, 9, 10, 11]
    sequence, _ = ask(service, turn)
    finish(service)
    assert sequence.reused == (len(start) + len(first) - 1) // 8 * 8
    assert sequence.tokens[len(turn) :] == answer(fresh(models("llama"), cache), turn)


def test_preempted_answers_are_those_of_a_roomy_pool(models: Models, cache: Path) -> None:
    asked = [prompt[:30] for prompt in prompts(6, 200, seed=3)]
    roomy = fresh(models("llama"), cache)
    expected = [answer(roomy, prompt, 30) for prompt in asked]
    tight = fresh(models("llama"), cache, pages=14)
    sequences = [ask(tight, prompt, 30)[0] for prompt in asked]
    finish(tight)
    assert sum(each.preemptions for each in sequences) > 0
    assert [each.tokens[each.prompt_tokens :] for each in sequences] == expected


def test_a_seed_gives_the_same_answer_whoever_shares_the_batch(models: Models, cache: Path) -> None:
    sampling = SamplingParams(temperature=0.9, top_p=0.9, top_k=40, seed=11)
    asked = prompts(5, 200, seed=4)
    alone = answer(fresh(models("llama"), cache), asked[0], 20, sampling)
    service = fresh(models("llama"), cache)
    for prompt in asked[1:]:
        ask(service, prompt, 20, SamplingParams(temperature=1.3, seed=5))
    sequence, _ = ask(service, asked[0], 20, sampling)
    finish(service)
    assert sequence.tokens[sequence.prompt_tokens :] == alone
    other = SamplingParams(temperature=0.9, top_p=0.9, top_k=40, seed=12)
    assert answer(fresh(models("llama"), cache), asked[0], 20, other) != alone


def test_the_answer_ends_at_a_stop_string_and_leaves_it_out(service: Service) -> None:
    prompt = prompts(1, 200, seed=5)[0]
    whole = service.tokenizer.decode(answer(service, prompt, 20))
    stop = next(each for each in whole[3:] if each.isascii())
    _, heard = ask(service, prompt, 20, stop=(stop,))
    finish(service)
    assert heard.summary is not None
    assert heard.summary.reason == "stop"
    assert "".join(heard.said) == whole[: whole.index(stop)]


def test_a_cancelled_answer_stops_within_a_step_and_gives_its_pages_back(service: Service) -> None:
    _, heard = ask(service, [5] * 20, 100)
    service.loop.step()
    said = len(heard.said)
    heard.cancelled = True
    service.loop.step()
    assert len(heard.said) == said
    assert heard.error is not None
    assert service.loop.active == 0
    service.planner.check()
    assert not service.planner.running


def test_a_listener_without_room_gets_every_piece_later_and_in_order(service: Service) -> None:
    prompt = prompts(1, 200, seed=6)[0]
    _, quick = ask(service, prompt, 15)
    finish(service)
    slow = Heard(room=0)
    ask(service, prompt, 15, listener=slow)
    while service.loop.computing:
        service.loop.step()
    assert slow.said == []
    slow.room = 1
    finish(service)
    assert slow.said == quick.said


@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(temperature=1.4, seed=3, min_tokens=12)])
def test_rule_12_an_answer_that_was_interrupted_anywhere_goes_on_as_if_it_had_not_been(
    models: Models, cache: Path, sampling: SamplingParams
) -> None:
    service = fresh(models("llama"), cache)
    prompt = prompts(1, 200, seed=8)[0]
    plain = "".join(heard_of(service, prompt, 24, sampling).said)
    # A stop string that is nearly there again and again, so that text is held back for it.
    for stop in [(), (plain[2] + "\N{SNOWMAN}", plain[-4:])]:
        whole = heard_of(service, prompt, 24, sampling, stop=stop)
        assert whole.summary is not None
        assert len(whole.pieces) > 3
        for cut in range(len(whole.pieces) + 1):
            said = [piece.tokens for piece in whole.pieces[:cut]]
            rest = heard_of(service, prompt, 24, sampling, stop=stop, said=said)
            assert rest.pieces == whole.pieces[cut:]
            assert rest.summary is not None
            assert rest.summary.reason == whole.summary.reason
            known = sum(map(len, said))
            assert rest.summary.resumed_tokens == known
            assert rest.summary.generated_tokens == whole.summary.generated_tokens - known


def test_rule_12_words_that_are_not_this_models_are_not_gone_on_from(service: Service) -> None:
    wrong: list[list[tuple[int, ...]]] = [[()], [(5,), ()], [tuple(range(5, 60))]]
    for said in wrong:
        with pytest.raises(InternalError, match="earlier attempt"):
            ask(service, [5] * 20, 20, said=said)
    assert service.loop.active == 0
    service.planner.check()


def test_a_failure_of_the_model_ends_its_batch_and_the_next_one_runs(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = prompts(1, 200, seed=7)[0]
    expected = answer(service, prompt)

    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(LlamaDecoder, "hidden", broken)
        _, heard = ask(service, prompt)
        finish(service)
        assert isinstance(heard.error, RuntimeError)
    assert answer(service, prompt) == expected


class Lent:
    """The full pages of a prompt that was computed before, lent to whoever must not find them in the index."""

    def __init__(self, service: Service, prompt: list[int]) -> None:
        self._allocator = service.pages.allocator
        chain = service.pages.new_chain("")
        chain.extend(np.asarray(prompt, np.int64))
        self._run = service.pages.index.match(chain, max_pages=(len(prompt) - 1) // 8).run()
        self.pages = page_ids(self._run)
        self._generations = np.frombuffer(self._run.generations, np.uint64)
        self.released = 0

    def verify(self) -> None:
        self._allocator.verify_all(self.pages, self._generations)

    def release(self) -> None:
        self.released += 1
        self._run.release()

    def free(self, service: Service) -> None:
        """As when the lender is gone, and its pages are handed out again."""
        self._run.release()
        service.pages.index.evict(1000)


SAMPLINGS = [SamplingParams(), SamplingParams(temperature=1.1, top_p=0.95, seed=21)]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_answer_from_borrowed_pages_is_that_of_one_worker(
    service: Service, models: Models, cache: Path, sampling: SamplingParams
) -> None:
    prompt = prompts(1, 200, seed=9)[0] * 3
    expected = answer(fresh(models("llama"), cache), prompt, 12, sampling)
    sequence, _ = ask(service, prompt[:-3], 0)
    finish(service)
    assert sequence.tokens == prompt[:-3]
    lent = Lent(service, prompt)
    assert len(lent.pages) > 3
    borrowing = Sequence("b", list(prompt), 12, sampling, tenant="another", borrowed=lent)
    heard = Heard()
    service.loop.add(Request(borrowing, IncrementalText(service.tokenizer.decode), heard))
    finish(service)
    assert borrowing.tokens[borrowing.prompt_tokens :] == expected
    assert heard.summary is not None
    assert heard.summary.mapped_tokens == 8 * len(lent.pages)
    assert heard.summary.computed_tokens == len(prompt) - 8 * len(lent.pages)
    assert lent.released == 1


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_rule_19_nothing_leaves_that_was_computed_from_stale_pages(
    service: Service, models: Models, cache: Path, steps: int
) -> None:
    prompt = prompts(1, 200, seed=9)[0] * 3
    expected = answer(fresh(models("llama"), cache), prompt, 12)
    ask(service, prompt, 0)
    finish(service)
    lent = Lent(service, prompt)
    borrowing = Sequence("b", list(prompt), 12, tenant="another", borrowed=lent)
    heard = Heard()
    service.loop.add(Request(borrowing, IncrementalText(service.tokenizer.decode), heard))
    for _ in range(steps):
        service.loop.step()
    lent.free(service)
    for planes in service.engine.pool.tensor:
        planes[:, : 8 * int(lent.pages.max()) + 8] += 3.0  # whoever has them now writes there, in mid-step too
    finish(service)
    assert heard.error is None
    assert borrowing.tokens[borrowing.prompt_tokens :] == expected
    assert heard.summary is not None
    assert heard.summary.mapped_tokens == 0
