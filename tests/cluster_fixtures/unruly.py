"""Roles that break their word in every way that a role can, and one that listens to them."""

import itertools
import time
from typing import cast

from omniflow.errors import Cancelled
from omniflow.roles import current, method
from omniflow.types import Choice, Stream, Text
from tests.cluster_fixtures.puppets import STEP_S, Puppet

KIBIBYTE = 1024
PACE_S = 0.002


class Unruly(Puppet):
    """Yields what, when and as much as it should not."""

    @method
    def mixed(self, text: Text) -> Stream[Text]:
        """Words, and then a number."""
        yield from text.split()
        yield cast(str, 7)

    @method
    def afterthought(self, text: Text) -> Stream[Text]:
        """A word after the end of its own stream."""
        yield text
        current().end()
        yield "and another thing"

    @method
    def stutter(self, text: Text) -> Text:
        """The one value twice."""
        current().emit([text])
        return text

    @method
    def elsewhere(self, text: Text) -> Text:
        """On an output that it does not have."""
        current().emit([text], "nowhere")
        return text

    @method
    def silent(self, text: Text) -> Stream[Text]:
        """An end without a frame before it."""
        return cast(Stream[str], iter(()))

    @method
    def empty(self, text: Text) -> Text:
        """None where a value is due."""
        return cast(str, None)

    @method
    def choose(self, text: Text) -> Choice[str]:
        """Whatever branch it is told to."""
        return text

    @method
    def endless(self, text: Text, *, kibibytes: int = 0) -> Stream[Text]:
        """For ever; frames of so many KiB. The test hears when it stops."""
        frame = text + "." * kibibytes * KIBIBYTE
        with self._line() as line:
            try:
                while True:
                    yield frame
            finally:
                line.say("stopped")

    @method
    def steady(self, text: Text, *, kibibytes: int = 64) -> Stream[Text]:
        """For ever, a frame of so many KiB every few milliseconds. The test hears of each, and when it stops."""
        frame = text + "." * kibibytes * KIBIBYTE
        with self._line() as line:
            try:
                for number in itertools.count():
                    line.say(str(number))
                    yield frame
                    time.sleep(PACE_S)
            finally:
                line.say("stopped")

    @method
    def burst(self, text: Text, *, count: int = 1) -> Stream[Text]:
        """All frames in one call, or in as few as there is room for."""
        frames = [f"{text}{number}" for number in range(count)]
        while frames:
            taken = current().emit(frames)
            del frames[:taken]
            if current().cancelled:
                raise Cancelled("the job is over")
            if not taken:
                time.sleep(STEP_S)
        return cast(Stream[str], iter(()))


class Listener(Puppet):
    """Reads what others send."""

    @method
    def count(self, words: Stream[Text]) -> Text:
        """How many came, and whether each has the number that follows the one before it."""
        numbers = [word.lstrip("abcdefghijklmnopqrstuvwxyz") for word in words]
        in_order = numbers == [str(number) for number in range(len(numbers))]
        return f"{len(numbers)} {'in order' if in_order else 'out of order'}"

    @method
    def after(self, words: Stream[Text], go: Text) -> Text:
        """Begins only once `go` is there."""
        return f"{go} {sum(1 for _ in words)}"
