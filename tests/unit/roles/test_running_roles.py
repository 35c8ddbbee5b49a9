"""One activation of a role: typed values in, frames out, every failure typed."""

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel

from omniflow import Audio, Image, Stream, Text
from omniflow.errors import BadOutput, Cancelled, InvalidArgument, NoWorker, RoleFailed
from omniflow.roles import (
    EngineRole,
    InvalidInput,
    QueueClosed,
    ReadyQueue,
    Role,
    RoleContext,
    RoleError,
    TypedActivation,
    current,
    invoke,
    method,
    spec_of,
)
from omniflow.roles.memory import MemoryActivation, MemoryQueue, run_method
from omniflow.types.wire import Encoded


class Both(NamedTuple):
    words: Stream[Text]
    total: Text
    spare: Text | None


class Tool(Role):
    closed = False

    @method
    def join(self, first: Text, second: Text | None = None, *, by: str = "-") -> Text:
        return first if second is None else f"{first}{by}{second}"

    @method
    def shout(self, words: Stream[Text]) -> Stream[Text]:
        try:
            for word in words:
                yield word.upper()
        finally:
            self.closed = True

    @method
    def both(self, text: Text) -> Both:
        return Both(iter(text.split()), str(len(text.split())), None)

    @method
    def maybe(self, text: Text) -> Text | None:
        return text or None

    @method
    def lie(self, text: Text) -> Text:
        return 5  # type: ignore[return-value]

    @method
    def raises(self, text: Text) -> Text:
        raise ZeroDivisionError("by zero")

    @method
    def refuses(self, text: Text, *, kind: str = "input") -> Text:
        if kind == "input":
            raise InvalidInput("text", "is empty", cure="write something")
        if kind == "own":
            raise InvalidArgument("a tensor of mine", field="dtype")
        if kind == "busy":
            raise NoWorker("none")
        raise RoleError("the voice is hoarse", cure="drink")

    @method
    def measure(self, image: Image) -> Text:
        current().features["pixels"] = image.pil().width * image.pil().height
        return f"seed {current().seed}"


def test_inputs_parameters_and_defaults_reach_the_method() -> None:
    assert run_method(Tool(), "join", first="a", second="b", by="+").results() == ["a+b"]
    assert run_method(Tool(), "join", first="a").results() == ["a"]
    assert run_method(Tool(), "join", first="a", second=None).results() == ["a"]


def test_a_stream_is_read_while_it_is_written() -> None:
    spec = spec_of(Tool).methods["shout"]
    activation = MemoryActivation(spec, {})
    first_out = threading.Event()
    sent = activation.emit

    def emit(port: str, frames: Sequence[Encoded], more: bool = False) -> int:
        taken = sent(port, frames, more)
        first_out.set()
        return taken

    activation.emit = emit  # type: ignore[method-assign]
    thread = threading.Thread(target=invoke, args=(Tool(), TypedActivation(activation, spec)))
    thread.start()
    activation.feed("words", ["one"])
    assert first_out.wait(10), "the first frame waits for nothing but the first input"
    activation.feed("words", ["two"])
    activation.end_input("words")
    assert activation.wait(10)
    thread.join(10)
    assert activation.results() == ["ONE", "TWO"]


def test_several_outputs_go_out_each_on_its_port() -> None:
    activation = run_method(Tool(), "both", text="a b c")
    assert activation.error is None
    assert activation.results("words") == ["a", "b", "c"]
    assert activation.results("total") == ["3"]
    assert activation.results("spare") == []


def test_none_on_an_optional_output_sends_nothing() -> None:
    assert run_method(Tool(), "maybe", text="").results() == []
    assert run_method(Tool(), "maybe", text="x").results() == ["x"]


def test_features_and_seed_are_at_hand_inside_a_method() -> None:
    image = Image.from_array(np.zeros((4, 5), np.uint8))
    activation = run_method(Tool(), "measure", image=image, seed=7)
    assert activation.results() == ["seed 7"]
    assert activation.features == {"pixels": 20}
    with pytest.raises(LookupError):
        current()


def test_what_a_method_does_not_declare_is_bad_output() -> None:
    error = run_method(Tool(), "lie", text="x").error
    assert isinstance(error, BadOutput)
    assert "declares Text" in error.message
    assert "got int" in error.message


def test_an_exception_becomes_role_failed_with_its_last_lines() -> None:
    error = run_method(Tool(), "raises", text="x").error
    assert isinstance(error, RoleFailed)
    assert "ZeroDivisionError: by zero" in error.message
    assert 'raise ZeroDivisionError("by zero")' in error.cause


def test_a_bad_input_names_the_input() -> None:
    error = run_method(Tool(), "refuses", text="x").error
    assert isinstance(error, InvalidArgument)
    assert (error.field, error.message, error.cure) == ("text", "is empty", "write something")


def test_a_bad_value_of_the_roles_own_making_is_not_blamed_on_the_sender() -> None:
    assert isinstance(run_method(Tool(), "refuses", text="x", kind="own").error, RoleFailed)


def test_a_roles_own_words_and_typed_errors_pass_unchanged() -> None:
    error = run_method(Tool(), "refuses", text="x", kind="voice").error
    assert isinstance(error, RoleFailed)
    assert (error.message, error.cure, error.cause) == ("the voice is hoarse", "drink", "")
    assert isinstance(run_method(Tool(), "refuses", text="x", kind="busy").error, NoWorker)


def test_a_truncated_image_names_the_input_even_when_found_late() -> None:
    whole = Image.from_array(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    half = Image(whole.data[: len(whole.data) // 2], "png", 64, 64)
    error = run_method(Tool(), "measure", image=half).error
    assert isinstance(error, InvalidArgument)
    assert error.field == "image"


def test_cancelling_ends_a_waiting_method_and_closes_its_generator() -> None:
    role, spec = Tool(), spec_of(Tool).methods["shout"]
    activation = MemoryActivation(spec, {})
    thread = threading.Thread(target=invoke, args=(role, TypedActivation(activation, spec)))
    thread.start()
    activation.feed("words", ["one"])
    activation.cancel()
    assert activation.wait(10)
    thread.join(10)
    assert isinstance(activation.error, Cancelled)
    assert role.closed


class Engine(EngineRole):
    """Takes what is there in one batch."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    @method
    def count(self, words: Stream[Text], *, start: int = 0) -> Stream[Text]:
        raise NotImplementedError

    def serve(self, ready: ReadyQueue) -> None:
        while True:
            try:
                batch = ready.take(8, 10.0)
            except QueueClosed:
                return
            self.batches.append(len(batch))
            for activation in batch:
                for number, word in enumerate(activation.stream("words"), start=activation.parameters["start"]):
                    activation.emit([f"{number} {word}"])
                activation.features["words"] = 1.0
                activation.finish()


def test_an_engine_batches_for_itself_until_its_queue_closes() -> None:
    queue = MemoryQueue(Engine)
    first, second = queue.put("count", words=["a", "b"]), queue.put("count", words=["c"], start=5)
    queue.close()
    engine = Engine()
    engine.serve(queue.typed)
    assert engine.batches == [2]
    assert first.results() == ["0 a", "1 b"]
    assert second.results() == ["5 c"]
    assert second.features == {"words": 1.0}


def test_read_tells_waiting_from_ended() -> None:
    queue = MemoryQueue(Engine)
    memory = queue.put("count")
    (activation,) = queue.typed.take(1, 1.0)
    assert activation.read("words", 4, 0.0) == []
    memory.feed("words", ["a"])
    assert activation.read("words", 4, 1.0) == ["a"]
    memory.end_input("words")
    assert activation.read("words", 4, 1.0) is None


class Voice(Role):
    @method
    def say(self, text: Text, hints: Stream[Text] | None = None) -> Text:
        return text if hints is None else text + "".join(hints)


def test_a_stream_that_nothing_feeds_is_none_to_a_method_and_ended_to_an_engine() -> None:
    assert run_method(Voice(), "say", text="a").results() == ["a"]
    assert run_method(Voice(), "say", text="a", hints=["b", "c"]).results() == ["abc"]
    spec = spec_of(Voice).methods["say"]
    activation = TypedActivation(MemoryActivation(spec, {"text": "a", "hints": None}), spec)
    assert activation.read("hints", 1, 0.0) is None
    assert list(activation.stream("hints")) == []


def test_emitting_on_a_port_that_is_not_there_is_bad_output() -> None:
    queue = MemoryQueue(Engine)
    queue.put("count", words=[])
    (activation,) = queue.typed.take(1, 1.0)
    with pytest.raises(BadOutput, match="no output `sound`"):
        activation.emit([Audio(b"", "pcm_s16", 8_000)], "sound")


class Slow:
    """A core activation whose consumer has room for one frame at a time."""

    def __init__(self, inner: MemoryActivation) -> None:
        self.inner = inner
        self.refusals = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def emit(self, port: str, frames: Sequence[Encoded], more: bool = False) -> int:
        if self.refusals % 2 == 0:
            self.refusals += 1
            return 0
        self.refusals += 1
        return self.inner.emit(port, frames)


def test_a_frame_that_is_not_taken_is_offered_again() -> None:
    spec = spec_of(Tool).methods["shout"]
    slow = Slow(MemoryActivation(spec, {"words": ["a", "b", "c"]}))
    invoke(Tool(), TypedActivation(slow, spec))  # type: ignore[arg-type]
    assert slow.inner.results() == ["A", "B", "C"]


class Options(BaseModel):
    beams: int = 1


def test_options_are_checked_and_unknown_ones_named() -> None:
    assert RoleContext(options={"beams": 3}).parse(Options).beams == 3
    with pytest.raises(InvalidArgument, match="unknown option 'beam'") as caught:
        RoleContext(options={"beam": 3}).parse(Options)
    assert "beams" in caught.value.cure
    with pytest.raises(InvalidArgument, match="beams"):
        RoleContext(options={"beams": "many"}).parse(Options)


def test_a_generator_is_any_iterator_of_frames() -> None:
    class Listed(Role):
        @method
        def split(self, text: Text) -> Stream[Text]:
            words: Iterator[str] = iter(text.split())
            return words

    assert run_method(Listed(), "split", text="a b").results() == ["a", "b"]
