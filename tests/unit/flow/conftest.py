"""Flows written to a file of their own, as a user would."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omniflow.flow import Flow, load_flows

ROLES = """\
from typing import NamedTuple
from omniflow import Audio, Image, Stream, Tensor, Text, any_of, flow, given, record, use
from omniflow.roles import EngineRole, Role, method

class Ocr(Role):
    @method
    def read(self, image: Image) -> Text: raise NotImplementedError
    def helper(self) -> None: ...

class Words(NamedTuple):
    text: Stream[Text]
    codes: Stream[Tensor]

class Llm(Role):
    @method
    def chat(self, question: Text, context: Text | None = None, *, max_tokens: int = 64) -> Stream[Text]:
        raise NotImplementedError
    @method
    def summary(self, text: Text, *, words: int) -> Text: raise NotImplementedError
    @method(deterministic=False, max_attempts=2)
    def think(self, text: Text) -> Words: raise NotImplementedError

class Tts(Role):
    @method
    def speak(self, text: Stream[Text], voice: Audio | None = None) -> Stream[Audio]: raise NotImplementedError

ocr, llm, tts = use(Ocr), use(Llm), use(Tts)

class Answer(NamedTuple):
    text: Stream[Text]
    speech: Stream[Audio]

"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a file that defines the roles above and then `body`."""

    def write(body: str) -> Path:
        path = tmp_path / "user_flow.py"
        path.write_text(ROLES + body)
        return path

    return write


@pytest.fixture
def the_flow(written: Callable[[str], Path]) -> Callable[[str], Flow[..., Any]]:
    """The last flow of such a file."""

    def make(body: str) -> Flow[..., Any]:
        return load_flows(str(written(body)))[-1]

    return make
