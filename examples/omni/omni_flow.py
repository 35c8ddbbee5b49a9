"""The shape of Qwen3-Omni: encoders side by side, then thinker, talker and vocoder, each on the other's stream."""

from typing import NamedTuple

from omni_roles import Hearing, Talker, Thinker, Vision, Vocoder

from omniflow import Audio, Image, Stream, Text, collect, each, flow, use

vision = use(Vision)
hearing = use(Hearing)
thinker = use(Thinker)
talker = use(Talker)
vocoder = use(Vocoder)


class Turn(NamedTuple):
    text: Text
    images: Stream[Image]
    sounds: Stream[Audio]


class Answer(NamedTuple):
    text: Stream[Text]
    speech: Stream[Audio]


@flow
def omni(turn: Turn) -> Answer:
    """Answers in words and in sound, both while it thinks."""
    seen = collect(vision.encode(image) for image in each(turn.images))
    heard = collect(hearing.encode(sound) for sound in each(turn.sounds))
    words = thinker.generate(turn.text, seen, heard)
    return Answer(words.text, vocoder.decode(talker.speak(words)))
