"""Roles that only pass frames on, and one that keeps the interpreter to itself."""

import ctypes
import time
from collections.abc import Iterator

from omniflow.roles import Role, method
from omniflow.types import Stream, Text

TOGETHER = 64
"""Streams that one worker handles at once."""
FRAME = "x" * 256


class Source(Role):
    """Makes frames as fast as it can."""

    concurrency = TOGETHER

    @method
    def frames(self, start: Text, *, count: int = 10_000) -> Stream[Text]:
        """`count` frames of 256 bytes."""
        return self._frames(count)

    def _frames(self, count: int) -> Iterator[str]:
        for _ in range(count):
            yield FRAME


class Relay(Role):
    """What comes in goes out."""

    concurrency = TOGETHER

    @method
    def passed(self, frames: Stream[Text]) -> Stream[Text]:
        """The same frames."""
        return self._passed(frames)

    def _passed(self, frames: Stream[Text]) -> Iterator[str]:
        yield from frames


class Sink(Role):
    """Counts."""

    concurrency = TOGETHER

    @method
    def count(self, frames: Stream[Text]) -> Text:
        """How many frames came, and when the first and the last did: seconds on the machine's monotonic clock."""
        count, first = 0, 0.0
        for _ in frames:
            first = first or time.monotonic()
            count += 1
        return f"{count} {first} {time.monotonic()}"


class Holder(Role):
    """Holds its interpreter's lock in stretches, as an engine does whose library never lets go of it."""

    @method
    def hold(self, start: Text, *, seconds: float = 5.0, stretch_ms: int = 20) -> Text:
        """Lets go for a moment after each stretch. The processor is idle meanwhile, so that nothing else is slowed."""
        usleep = ctypes.PyDLL(None).usleep  # unlike CDLL, PyDLL keeps the lock during the call
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            usleep(stretch_ms * 1000)
            time.sleep(0)
        return start
