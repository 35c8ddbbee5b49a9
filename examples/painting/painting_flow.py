"""The shape of HunyuanImage 3: a language model thinks and words the prompt anew, then a denoiser runs step by step."""

from typing import NamedTuple

from painting_roles import Canvas, Decoder, Denoiser, Llm, Step

from omniflow import Image, Stream, Text, collect, flow, loop, use

llm = use(Llm)
denoiser = use(Denoiser)
decoder = use(Decoder)


class Painting(NamedTuple):
    thoughts: Stream[Text]
    image: Image


@flow
def paint(prompt: Text, *, steps: int = 8) -> Painting:
    """The thoughts while they come, and the picture."""
    thoughts = llm.think(prompt)
    caption = llm.caption(collect(thoughts))

    def step(canvas: Canvas) -> Step:
        return denoiser.step(canvas, caption)

    canvas = loop(step, start=denoiser.begin(caption, steps=steps), until="done", max_rounds=100)
    return Painting(thoughts, decoder.decode(canvas))
