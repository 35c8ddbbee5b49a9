"""Trivial parts of an agent that answers in text, pictures and sound, as the letters of the request ask."""

from typing import Literal, NamedTuple

import numpy as np

from omniflow import Audio, Choice, Image, Text, record
from omniflow.roles import Role, method

Kind = Literal["text", "image", "audio"]
KINDS: dict[str, Kind] = {"t": "text", "i": "image", "a": "audio"}


@record
class Part:
    """One part of the answer, of one kind."""

    text: Text | None = None
    image: Image | None = None
    audio: Audio | None = None


class Draft(NamedTuple):
    """`todo`: letters of the parts still to make, e.g. "tia"."""

    todo: Text
    part: Part
    done: bool


class Plan(NamedTuple):
    kind: Choice[Kind]
    todo: Text


class Planner(Role):
    @method
    def begin(self, request: Text) -> Text:
        """The parts wanted: the letters of the request that mean one."""
        return "".join(letter for letter in request.lower() if letter in KINDS) or "t"

    @method
    def next(self, todo: Text) -> Plan:
        return Plan(KINDS[todo[0]], todo[1:])


class Writer(Role):
    @method
    def write(self, todo: Text) -> Draft:
        return Draft(todo, Part(text=f"{len(todo)} parts to come"), done=not todo)


class Painter(Role):
    @method
    def draw(self, todo: Text) -> Draft:
        pixels = np.zeros((8, 8 + len(todo)), np.uint8)
        return Draft(todo, Part(image=Image.from_array(pixels)), done=not todo)


class Speaker(Role):
    @method
    def say(self, todo: Text) -> Draft:
        silence = np.zeros(80 * (1 + len(todo)), np.float32)
        return Draft(todo, Part(audio=Audio.from_array(silence, sample_rate=8_000)), done=not todo)
