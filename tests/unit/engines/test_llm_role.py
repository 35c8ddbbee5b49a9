"""The `llm` role as a worker runs it: activations in, frames, features and typed errors out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from omniflow.errors import Cancelled, InvalidArgument, TooLarge
from omniflow.roles import Activation, QueueClosed, RoleContext, spec_of
from omniflow.types import Stream
from omniflow_workers.roles.llm import Llm

PARAMETERS = {each.name: each.default for each in spec_of(Llm).methods["chat"].parameters}


class Asked:
    """An activation of `llm.chat`, and what came of it."""

    job, node, method, key, epoch, seed, tenant = "job", "llm", "chat", (), 1, 5, ""
    remaining_ms = 60_000
    job_over = False

    def __init__(
        self, question: str, context: str | None = None, *, resumed: tuple[bytes, ...] = (), **parameters: object
    ) -> None:
        self.resumed = resumed
        self.states: list[bytes] = []
        self._values = {"question": question, "context": context}
        self.parameters: Mapping[str, Any] = PARAMETERS | parameters
        self.features: dict[str, float] = {}
        self.frames: list[str] = []
        self.error: BaseException | None = None
        self.cancelled = False
        self.begun = threading.Event()
        self.over = threading.Event()

    @property
    def inputs(self) -> frozenset[str]:
        return frozenset(name for name, value in self._values.items() if value is not None)

    def value(self, name: str) -> Any:
        return self._values[name]

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        raise AssertionError("an answer is no array")

    def stream(self, name: str) -> Stream[Any]:
        raise KeyError(name)

    def read(self, name: str, max_n: int, timeout: float) -> list[Any] | None:
        raise KeyError(name)

    def emit(self, frames: Sequence[Any], port: str | None = None) -> int:
        self.frames += [frame.value for frame in frames]
        self.states += [frame.state for frame in frames]
        self.begun.set()
        return len(frames)

    def end(self, port: str | None = None) -> None:
        raise AssertionError("finish ends the stream")

    def finish(self) -> None:
        self.over.set()

    def finish_with(self, value: Any, port: str | None = None) -> None:
        raise AssertionError("the answer is a stream")

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.over.set()

    def answer(self) -> str:
        assert self.over.wait(30)
        assert self.error is None
        return "".join(self.frames)

    def failure(self) -> BaseException:
        assert self.over.wait(30)
        assert self.error is not None
        return self.error


class Queue:
    """A ready queue that the test fills; None closes it."""

    def __init__(self) -> None:
        self._items: SimpleQueue[Activation | None] = SimpleQueue()

    def put(self, *asked: Asked) -> None:
        for each in asked:
            self._items.put(each)

    def close(self) -> None:
        self._items.put(None)

    def take(self, max_n: int, timeout: float) -> list[Activation]:
        taken: list[Activation] = []
        try:
            while len(taken) < max_n:
                item = self._items.get(timeout=0 if taken else timeout) if timeout else self._items.get_nowait()
                if item is None:
                    if taken:
                        self._items.put(None)
                        break
                    raise QueueClosed
                taken.append(item)
        except Empty:
            pass
        return taken

    def __len__(self) -> int:
        return self._items.qsize()


@pytest.fixture
def serving(models: Callable[[str], Path], cache: Path) -> Iterator[Queue]:
    role = Llm()
    options = {"model": str(models("llama")), "kv_bytes": 1 << 20, "page_tokens": 8, "threads": 1, "running": 4}
    role.load(RoleContext(options=options, cache=cache))
    queue = Queue()
    thread = threading.Thread(target=role.serve, args=(queue,))
    thread.start()
    yield queue
    queue.close()
    thread.join(30)
    assert not thread.is_alive()


def test_an_answer_comes_in_pieces_with_what_it_took(serving: Queue) -> None:
    asked = Asked("what?", max_tokens=12)
    serving.put(asked)
    asked.answer()
    assert len(asked.frames) > 1
    assert asked.features == {
        "prompt_tokens": 8.0,
        "reused_tokens": 0.0,
        "mapped_tokens": 0.0,
        "pulled_tokens": 0.0,
        "computed_tokens": 8.0,
        "generated_tokens": 12.0,
        "resumed_tokens": 0.0,
    }


def test_rule_12_another_attempt_goes_on_after_what_was_read_and_generates_only_the_rest(serving: Queue) -> None:
    whole = Asked("what?", max_tokens=30)
    serving.put(whole)
    whole.answer()
    for read in (1, len(whole.frames) // 2, len(whole.frames)):
        rest = Asked("what?", max_tokens=30, resumed=tuple(whole.states[:read]))
        serving.put(rest)
        rest.answer()
        assert rest.frames == whole.frames[read:]
        assert rest.states == whole.states[read:]
        known = sum(len(state) // 4 for state in whole.states[:read])
        assert rest.features["resumed_tokens"] == known
        assert rest.features["generated_tokens"] == whole.features["generated_tokens"] - known


def test_an_answer_has_at_least_the_tokens_asked_for(serving: Queue) -> None:
    asked = [Asked(f"question {n}?", max_tokens=40, min_tokens=40, temperature=1.5, seed=n + 1) for n in range(4)]
    serving.put(*asked)
    for each in asked:
        each.answer()
        assert each.features["generated_tokens"] == 40


def test_a_second_question_about_the_same_context_reuses_its_pages(serving: Queue) -> None:
    context = "the train to Basel leaves at nine " * 3
    first = Asked("when?", context, max_tokens=4)
    serving.put(first)
    first.answer()
    second = Asked("where to?", context, max_tokens=4)
    serving.put(second)
    second.answer()
    assert second.features["reused_tokens"] >= len(context) // 8 * 8


def test_bad_questions_end_typed_and_disturb_nobody(serving: Queue) -> None:
    good = Asked("tell me", max_tokens=30)
    bad = {
        "question": Asked("  \n"),
        "context": Asked("short", "long " * 100),
        "max_tokens": Asked("q", max_tokens=0),
        "min_tokens": Asked("q", max_tokens=4, min_tokens=5),
        "temperature": Asked("q", temperature=float("nan")),
        "top_p": Asked("q", top_p=0.0),
        "top_k": Asked("q", top_k=-1),
    }
    serving.put(good, *bad.values())
    for field, asked in bad.items():
        error = asked.failure()
        assert isinstance(error, InvalidArgument)
        assert error.field == field
        assert error.cure
    assert isinstance(bad["context"].error, TooLarge)
    assert "255 tokens" in str(bad["context"].error)
    alone = Asked("tell me", max_tokens=30)
    serving.put(alone)
    assert good.answer() == alone.answer()


def test_a_cancelled_job_stops_and_the_others_go_on(serving: Queue) -> None:
    gone, stays = Asked("one", max_tokens=200), Asked("two", max_tokens=20)
    serving.put(gone, stays)
    assert gone.begun.wait(30)
    gone.cancelled = True
    assert isinstance(gone.failure(), Cancelled)
    stays.answer()


def test_the_same_seed_gives_the_same_answer_and_zero_takes_the_jobs(serving: Queue) -> None:
    drawn = [Asked("go", temperature=1.5, max_tokens=20, seed=seed) for seed in (5, 0, 6)]
    serving.put(*drawn)
    given, the_jobs, other = (each.answer() for each in drawn)
    assert given == the_jobs
    assert given != other


def test_what_has_begun_is_finished_when_the_queue_closes(models: Callable[[str], Path], cache: Path) -> None:
    role = Llm()
    role.load(RoleContext(options={"model": str(models("llama")), "kv_bytes": 1 << 20, "threads": 1}, cache=cache))
    queue, asked = Queue(), Asked("and?", max_tokens=9)
    queue.put(asked)
    queue.close()
    role.serve(queue)
    assert asked.over.is_set()
    assert asked.features["generated_tokens"] == 9.0


def test_an_unknown_option_is_named(cache: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Llm().load(RoleContext(options={"modle": "x"}, cache=cache))
    assert caught.value.field == "modle"
