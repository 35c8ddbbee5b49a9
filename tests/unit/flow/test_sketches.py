"""The flows by which the language was designed compile as they were first written down."""

from typing import Any, Literal, NamedTuple

import pytest

from omniflow import Audio, Choice, Image, Stream, Tensor, Text, collect, each, flow, given, loop, record, route, use
from omniflow.flow import Flow
from omniflow.roles import Role, method


@record
class Pdf:
    pages: list[Image]


class Ocr(Role):
    @method
    def read(self, image: Image) -> Text:
        raise NotImplementedError


class Splitter(Role):
    @method
    def pages(self, pdf: Pdf) -> Stream[Image]:
        raise NotImplementedError


class Llm(Role):
    @method
    def chat(self, question: Text, context: Text | None = None) -> Stream[Text]:
        raise NotImplementedError

    @method
    def answer(self, question: Text, pages: list[Text]) -> Text:
        raise NotImplementedError


class Tts(Role):
    @method
    def speak(self, text: Stream[Text]) -> Audio:
        raise NotImplementedError


class Vision(Role):
    @method
    def encode(self, image: Image) -> Tensor:
        raise NotImplementedError


class Hearing(Role):
    @method
    def encode(self, sound: Audio) -> Tensor:
        raise NotImplementedError


class Words(NamedTuple):
    text: Stream[Text]
    hidden: Stream[Tensor]


class Thinker(Role):
    @method
    def generate(self, text: Text, seen: list[Tensor], heard: list[Tensor]) -> Words:
        raise NotImplementedError


class Talker(Role):
    @method
    def speak(self, words: Words) -> Stream[Tensor]:
        raise NotImplementedError


class Vocoder(Role):
    @method
    def decode(self, codes: Stream[Tensor]) -> Stream[Audio]:
        raise NotImplementedError


@record
class Part:
    text: Text | None = None


class Draft(NamedTuple):
    memo: Text
    part: Part
    done: bool


class Plan(NamedTuple):
    kind: Choice[Literal["text", "image", "audio"]]
    memo: Text


class Planner(Role):
    @method
    def begin(self, request: Text) -> Draft:
        raise NotImplementedError

    @method
    def next(self, state: Draft) -> Plan:
        raise NotImplementedError


class Writer(Role):
    @method
    def write(self, plan: Plan) -> Draft:
        raise NotImplementedError


class Painter(Role):
    @method
    def draw(self, plan: Plan) -> Draft:
        raise NotImplementedError


class Speaker(Role):
    @method
    def say(self, plan: Plan) -> Draft:
        raise NotImplementedError


ocr, splitter, llm, tts, vision, hearing = use(Ocr), use(Splitter), use(Llm), use(Tts), use(Vision), use(Hearing)
thinker, talker, vocoder = use(Thinker), use(Talker), use(Vocoder)
planner, writer, painter, speaker = use(Planner), use(Writer), use(Painter), use(Speaker)


class Turn(NamedTuple):
    text: Text
    images: Stream[Image]
    sounds: Stream[Audio]


@flow
def speak_about(image: Image | None, question: Text) -> Audio:
    seen = ocr.read(given(image))  # runs only when an image came
    answer = llm.chat(question, context=seen)  # Stream[Text]
    return tts.speak(answer)  # starts at the first sentence


@flow
def read_pdf(pdf: Pdf, question: Text) -> Text:  # fan-out, order kept, counted join
    pages = collect(ocr.read(page) for page in each(splitter.pages(pdf)))
    return llm.answer(question, pages)


@flow
def omni(turn: Turn) -> tuple[Stream[Text], Stream[Audio]]:  # parallel encoders, streams from role to role
    seen = collect(vision.encode(image) for image in each(turn.images))
    heard = collect(hearing.encode(sound) for sound in each(turn.sounds))
    words = thinker.generate(turn.text, seen, heard)
    return words.text, vocoder.decode(talker.speak(words))


@flow
def compose(request: Text) -> Stream[Part]:  # dynamic routing in a bounded cycle
    def part(state: Draft) -> Draft:
        plan = planner.next(state)
        return route(
            plan.kind,
            text=lambda: writer.write(plan),
            image=lambda: painter.draw(plan),
            audio=lambda: speaker.say(plan),
        )

    return loop(part, start=planner.begin(request), until="done", emit="part", max_rounds=32)


@pytest.mark.parametrize("sketch", [speak_about, read_pdf, omni, compose], ids=lambda sketch: sketch.name)
def test_a_sketch_compiles(sketch: Flow[..., Any]) -> None:
    assert [problem.render() for problem in sketch.problems()] == []
