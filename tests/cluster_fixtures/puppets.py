"""A role whose every move the test decides: it reports activations on the test's socket and waits for orders there."""

import ctypes
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from omniflow.errors import Cancelled
from omniflow.roles import Role, RoleContext, current, method, with_state
from omniflow.types import Image, Stream, Text

# How often a role that waits looks whether its job is over: "within one step".
STEP_S = 0.02


class Options(BaseModel):
    """`stage`: path of the test's socket."""

    stage: str


class Turn(NamedTuple):
    """The state after a round of a loop."""

    text: Text
    done: bool


class Line:
    """One activation's connection to the test. Its end tells the test that the process is gone."""

    def __init__(self, stage: str, worker: str) -> None:
        activation = current()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(stage)
        self.say(
            json.dumps(
                {
                    "worker": worker,
                    "node": activation.node,
                    "job": activation.job,
                    "epoch": activation.epoch,
                    "tenant": activation.tenant,
                }
            )
        )

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def say(self, text: str) -> None:
        self._socket.sendall(f"{text}\n".encode())

    def wait(self) -> None:
        """Until the test says go. Raises `Cancelled` when the job is over before that."""
        self._socket.settimeout(STEP_S)
        while True:
            try:
                self._socket.recv(1)
                return
            except TimeoutError:
                if current().cancelled:
                    self.say("cancelled")
                    raise Cancelled("the job is over") from None

    def wait_deaf(self) -> None:
        """Until the test says go, whatever becomes of the job."""
        self._socket.settimeout(None)
        self._socket.recv(1)

    def wait_holding_the_gil(self) -> None:
        """The same in a call that lets no other thread run Python."""
        buffer = ctypes.create_string_buffer(1)
        self._socket.setblocking(True)
        ctypes.PyDLL(None).read(self._socket.fileno(), buffer, 1)


class Puppet(Role):
    """Does what the test says."""

    concurrency = 4

    def load(self, context: RoleContext) -> None:
        self._stage = context.parse(Options).stage
        self._worker = context.worker

    def _line(self) -> Line:
        return Line(self._stage, self._worker)

    @method
    def echo(self, text: Text) -> Text:
        """At once."""
        return text

    @method
    def tell(self, text: Text) -> Text:
        """At once, but the test hears of it: it counts the runs."""
        self._line().__exit__()
        return text

    @method
    def hold(self, text: Text) -> Text:
        """When the test says so."""
        with self._line() as line:
            line.wait()
        return text

    @method
    def ignore(self, text: Text) -> Text:
        """When the test says so; it never looks whether the job is over."""
        with self._line() as line:
            line.wait_deaf()
        return text

    @method
    def grip(self, text: Text) -> Text:
        """When the test says so, and until then no other Python runs in the worker."""
        with self._line() as line:
            line.wait_holding_the_gil()
        return text

    @method
    def fail(self, text: Text) -> Text:
        """Raises."""
        raise ValueError(f"there is no such note: {text}")

    @method
    def lie(self, text: Text) -> Text:
        """Returns what it does not declare."""
        return cast(str, len(text))

    @method
    def look(self, image: Image) -> Text:
        """Decodes the picture."""
        width, height = image.pil().size
        return f"{width} x {height}"

    @method
    def words(self, text: Text, *, pause: int = -1) -> Stream[Text]:
        """Word by word. The first attempt waits for the test before word `pause`."""
        return self._spoken(text.split(), pause)

    @method
    def drip(self, text: Text) -> Stream[Text]:
        """Word by word, each when the test says so; it hears of every run."""
        with self._line() as line:
            for word in text.split():
                line.wait()
                yield word

    @method
    def guess(self, text: Text, *, pause: int = -1) -> Stream[Text]:
        """Like `words`, but each attempt says something else, which it should not."""
        return self._spoken([f"{word}-{current().epoch}" for word in text.split()], pause)

    @method(deterministic=False, resumable=True)
    def improvise(self, text: Text, *, pause: int = -1) -> Stream[Text]:
        """Like `guess`, which is no harm here: a new attempt says only what nobody has heard."""
        words = [with_state(f"{word}-{current().epoch}", word.encode()) for word in text.split()]
        heard = len(current().resumed)
        assert current().resumed == tuple(word.encode() for word in text.split()[:heard])
        current().features["resumed"] = heard
        return self._spoken(words[heard:], pause)

    @method
    def relay(self, words: Stream[Text], *, pause: int = -1) -> Stream[Text]:
        """Passes on what comes. The first attempt waits for the test before word `pause`."""
        return self._spoken(words, pause)

    @method
    def gather(self, words: Stream[Text]) -> Text:
        """All in one."""
        return " ".join(words)

    @method
    def join(self, words: list[Text]) -> Text:
        """All of a list in one."""
        return " ".join(words)

    @method
    def turn(self, words: list[Text]) -> Turn:
        """One round: a dot behind each word but the first, which counts down to the last round."""
        left = int(words[0]) - 1
        return Turn(" ".join([str(left), *(f"{word}." for word in words[1:])]), done=left <= 0)

    @method
    def step(self, text: Text) -> Turn:
        """One round of "rounds:word": a dot behind the word."""
        left, word = text.split(":")
        return Turn(f"{int(left) - 1}:{word}.", done=int(left) <= 1)

    def _spoken(self, words: Any, pause: int) -> Iterator[str]:
        for index, word in enumerate(words):
            if index == pause and current().epoch == 1:
                with self._line() as line:
                    line.wait()
            yield word


class Loner(Puppet):
    """One activation at a time."""

    concurrency = 1
