"""Trivial parts of a picture generator: a language model that thinks first, a denoiser, a decoder."""

from typing import NamedTuple

import numpy as np

from omniflow import Image, Stream, Tensor, Text, record
from omniflow.roles import Role, current, method

SIZE = 16


@record
class Canvas:
    """`latents`: float32, shape (SIZE, SIZE); `left`: how many steps are to come."""

    latents: Tensor
    left: int


class Step(NamedTuple):
    canvas: Canvas
    done: bool


class Llm(Role):
    @method
    def think(self, prompt: Text) -> Stream[Text]:
        """The thoughts before the picture, word by word."""
        return iter([f"a picture of {word}" for word in prompt.split()])

    @method
    def caption(self, thoughts: list[Text]) -> Text:
        return ", ".join(thoughts)


class Denoiser(Role):
    @method
    def begin(self, caption: Text, *, steps: int = 8) -> Canvas:
        """Noise of the job's seed."""
        noise = np.random.default_rng(current().seed).standard_normal((SIZE, SIZE))
        return Canvas(Tensor.from_array(noise, "float32"), steps)

    @method
    def step(self, canvas: Canvas, caption: Text) -> Step:
        """Half way to a grey that the caption's length tells."""
        wanted = len(caption) % 255 / 255
        latents = (canvas.latents.array() + wanted) / 2
        return Step(Canvas(Tensor.from_array(latents, "float32"), canvas.left - 1), done=canvas.left <= 1)


class Decoder(Role):
    @method
    def decode(self, canvas: Canvas) -> Image:
        pixels = np.clip(canvas.latents.array() * 255, 0, 255).astype(np.uint8)
        return Image.from_array(pixels)
