"""Flows written to a file of their own, as a user would."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omniflow.errors import BadFlow
from omniflow.flow import Flow, load_flows

ROLES = """\
from typing import Literal, NamedTuple
from omniflow import Audio, Choice, Choices, Image, Stream, Tensor, Text, any_of, collect, each, flow, given, loop
from omniflow import merge, options, record, route, unordered, use, zip_streams
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
    @method
    def hear(self, text: Text, words: Stream[Text]) -> Audio: raise NotImplementedError
    @method
    def both(self, one: Text, two: Text) -> Text: raise NotImplementedError
    @method(deterministic=False, max_attempts=2)
    def think(self, text: Text) -> Words: raise NotImplementedError

class Tts(Role):
    @method
    def speak(self, text: Stream[Text], voice: Audio | None = None) -> Stream[Audio]: raise NotImplementedError

class Boxes(NamedTuple):
    text: Text
    box: Tensor

class Splitter(Role):
    @method
    def pages(self, image: Image) -> Stream[Image]: raise NotImplementedError
    @method
    def lines(self, text: Text) -> Stream[Text]: raise NotImplementedError
    @method
    def join(self, texts: list[Text]) -> Text: raise NotImplementedError
    @method
    def boxes(self, image: Image) -> Boxes: raise NotImplementedError

class Plan(NamedTuple):
    kind: Choice[Literal["short", "long"]]
    tools: Choices[Literal["web", "files"]]
    note: Text

class Draft(NamedTuple):
    text: Text
    page: Image | None
    done: bool

class Planner(Role):
    @method
    def plan(self, request: Text) -> Plan: raise NotImplementedError
    @method
    def begin(self, request: Text) -> Draft: raise NotImplementedError
    @method
    def edit(self, text: Text) -> Draft: raise NotImplementedError
    @method
    def polish(self, draft: Draft) -> Draft: raise NotImplementedError

ocr, llm, tts = use(Ocr), use(Llm), use(Tts)
splitter, planner = use(Splitter), use(Planner)

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


Shown = Callable[[str, str, str, str], None]


@pytest.fixture
def shown(the_flow: Callable[[str], Flow[..., Any]]) -> Shown:
    """Asserts that a mistake is shown: its code, the line that ends in "# <-", part of the message and of the cure."""

    def check(code: str, body: str, why: str, cure: str) -> None:
        flow = the_flow(body + "\n")
        with pytest.raises(BadFlow) as caught:
            flow.to_proto()
        problems = [problem for problem in caught.value.problems if problem.code == code]
        assert problems, str(caught.value)
        problem = problems[0]
        assert why in problem.message
        assert cure in problem.cure
        assert problem.source is not None
        file = Path(problem.source.file)
        marked = 1 + next(n for n, line in enumerate(file.read_text().splitlines()) if line.endswith("# <-"))
        text = str(caught.value)
        assert f"user_flow.py:{marked} in " in text
        assert f"{marked} | {problem.source.text}" in text
        assert problem.source.text.endswith("# <-")

    return check
