"""Trivial parts of an omni model: they show what travels between the real ones, and need no weights."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from omniflow import Audio, Image, Stream, Tensor, Text
from omniflow.roles import Role, method

SAMPLE_RATE = 8_000


class Words(NamedTuple):
    """What the thinker says, and what it thought while saying it: one hidden state per word."""

    text: Stream[Text]
    hidden: Stream[Tensor]


class Vision(Role):
    concurrency = 4

    @method
    def encode(self, image: Image) -> Tensor:
        """float32, shape (2,): width and height, in place of an embedding."""
        return Tensor.from_array([image.width, image.height], "float32")


class Hearing(Role):
    concurrency = 4

    @method
    def encode(self, sound: Audio) -> Tensor:
        """float32, shape (1,): seconds, in place of an embedding."""
        return Tensor.from_array([sound.seconds], "float32")


class Thinker(Role):
    @method
    def generate(self, text: Text, seen: list[Tensor], heard: list[Tensor]) -> Words:
        """Repeats the text and says what came with it."""
        words = [*text.split(), f"{len(seen)} images", f"{len(heard)} sounds"]
        return Words(text=iter(words), hidden=(Tensor.from_array([len(word)], "float32") for word in words))


class Talker(Role):
    @method
    def speak(self, words: Words) -> Stream[Tensor]:
        """One code per word, int64 of shape (2,): how long the word is, and how loud to say it."""
        return self._codes(words)

    def _codes(self, words: Words) -> Iterator[Tensor]:
        for word, hidden in zip(words.text, words.hidden, strict=True):
            yield Tensor.from_array([len(word), int(hidden.array()[0])], "int64")


class Vocoder(Role):
    @method
    def decode(self, codes: Stream[Tensor]) -> Stream[Audio]:
        """A hundredth of a second of sound for every letter."""
        return self._sound(codes)

    def _sound(self, codes: Stream[Tensor]) -> Iterator[Audio]:
        for code in codes:
            letters, volume = code.array().tolist()
            samples = np.full(letters * SAMPLE_RATE // 100, volume / 100, np.float32)
            yield Audio.from_array(samples, sample_rate=SAMPLE_RATE)
