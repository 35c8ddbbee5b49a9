"""Reads the text in a picture, answers a question about it, and speaks the answer."""

from typing import NamedTuple

from omniflow import Audio, Image, Stream, Text, flow, given, use
from omniflow_workers.roles.llm import Llm
from omniflow_workers.roles.ocr import Ocr
from omniflow_workers.roles.tts import Tts

ocr = use(Ocr)
llm = use(Llm)
tts = use(Tts)


class Answer(NamedTuple):
    text: Stream[Text]
    speech: Stream[Audio]


@flow
def speak_about(image: Image | None, question: Text) -> Answer:
    """The answer in words and in sound, both while it is being made."""
    seen = ocr.read(given(image))  # runs only when an image came
    answer = llm.chat(question, context=seen)
    return Answer(text=answer, speech=tts.speak(answer))  # speaks from the first sentence on
