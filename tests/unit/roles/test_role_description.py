"""What a role offers is read from its signatures; what they do not say is an error that says so."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from omniflow import Audio, Stream, Tensor, Text, record
from omniflow.roles import RESULT, BadRole, EngineRole, ReadyQueue, Role, describe, method, spec_of
from omniflow.types import ValueType
from omniflow.v1 import value_pb2


class Spoken(NamedTuple):
    text: Stream[Text]
    codes: Stream[Tensor]


@record
class Heard:
    words: Stream[Text]
    language: Text


class BigLlm(EngineRole):
    """Talks."""

    concurrency = 4

    @method
    def chat(
        self,
        question: Text,
        context: Text | None = None,
        *,
        max_tokens: int = 64,
        stop: tuple[str, ...] = (),
        seed: int | None = None,
    ) -> Stream[Text]:
        """Answers a question."""
        raise NotImplementedError

    @method(deterministic=False, max_attempts=1)
    def say(self, text: Text) -> Spoken:
        raise NotImplementedError

    @method
    def hear(self, sound: Audio) -> Heard:
        raise NotImplementedError

    def helper(self, anything: object) -> object:
        return anything

    def serve(self, ready: ReadyQueue) -> None:
        raise NotImplementedError


def test_media_are_inputs_and_plain_values_are_parameters() -> None:
    chat = spec_of(BigLlm).methods["chat"]
    assert [(port.name, str(port.type), port.required) for port in chat.inputs] == [
        ("question", "Text", True),
        ("context", "Text | None", False),
    ]
    assert [(each.name, str(each.type), each.default) for each in chat.parameters] == [
        ("max_tokens", "int", 64),
        ("stop", "list[str]", ()),
        ("seed", "int | None", None),
    ]
    assert [(port.name, str(port.type)) for port in chat.outputs] == [(RESULT, "Stream[Text]")]


def test_the_fields_of_a_named_tuple_or_of_a_record_with_a_stream_are_outputs() -> None:
    methods = spec_of(BigLlm).methods
    assert [(port.name, str(port.type)) for port in methods["say"].outputs] == [
        ("text", "Stream[Text]"),
        ("codes", "Stream[Tensor]"),
    ]
    assert [port.name for port in methods["hear"].outputs] == ["words", "language"]


def test_only_decorated_functions_are_published() -> None:
    assert list(spec_of(BigLlm).methods) == ["chat", "say", "hear"]


def test_the_description_says_all_that_a_registry_needs() -> None:
    info = describe(BigLlm)
    assert (info.name, info.concurrency, info.doc) == ("big_llm", 4, "Talks.")
    chat, say, _ = info.methods
    assert (chat.name, chat.deterministic, chat.doc) == ("chat", True, "Answers a question.")
    assert not say.deterministic
    assert chat.inputs[1].type.optional
    assert chat.inputs[1].parameter == "context"
    assert ValueType.from_proto(chat.outputs[0].type).stream
    assert chat.parameters[0].default == value_pb2.Value(integer=64)
    assert not chat.parameters[2].HasField("default")
    assert describe(BigLlm, "llm-large").name == "llm-large"


def test_a_subclass_keeps_its_methods_and_gets_its_own_name() -> None:
    class Tuned(BigLlm):
        name = "tuned"

    class SmallLlm(BigLlm):
        pass

    assert list(spec_of(Tuned).methods) == ["chat", "say", "hear"]
    assert (Tuned.name, SmallLlm.name) == ("tuned", "small_llm")


def case(body: str) -> type[Role]:
    names: dict[str, object] = {}
    source = (
        "from collections.abc import Iterator\n"
        "from omniflow import *\nfrom omniflow.roles import *\nfrom typing import NamedTuple\n"
        f"class Bad(Role):\n{body}"
    )
    exec(source, names)
    role = names["Bad"]
    assert isinstance(role, type)
    assert issubclass(role, Role)
    return role


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    def f(self, x: Text) -> Text: ...", "publishes no method"),
        ("    @method\n    def f(self, x) -> Text: ...", "`x` of `Bad.f` has no annotation"),
        ("    @method\n    def f(self, x: Text): ...", "does not say what it returns"),
        ("    @method\n    def f(self, x: Text) -> str: ...", "returns str, which is for parameters"),
        ("    @method\n    def f(self, x: bytes) -> Text: ...", "`bytes` is no type that travels"),
        ("    @method\n    def f(self, x: Text) -> Iterator[Text]: ...", "no type that travels"),
        ("    @method\n    def f(self, *x: Text) -> Text: ...", r"takes `\*x`"),
        ("    @method\n    async def f(self, x: Text) -> Text: ...", "is async"),
        ("    @method\n    def f(self, x: 'Missing') -> Text: ...", "names `Missing`"),
    ],
)
def test_a_method_that_does_not_say_what_travels_is_refused(body: str, message: str) -> None:
    with pytest.raises(BadRole, match=message) as caught:
        spec_of(case(body))
    assert caught.value.field.startswith("Bad")
    assert caught.value.cure


def test_an_override_that_forgets_to_publish_is_refused() -> None:
    class Forgetful(BigLlm):
        def hear(self, sound: Audio) -> Heard:
            raise NotImplementedError

    with pytest.raises(BadRole, match="overrides a method without being one"):
        spec_of(Forgetful)


TYPED = """
from omniflow import Audio, Image, Stream, Text, flow, given, use
from omniflow.roles import Role, method

class Ocr(Role):
    @method
    def read(self, image: Image) -> Text:
        return "plain str is a Text"

class Tts(Role):
    @method(deterministic=False)
    def speak(self, text: Stream[Text], *, voice: str = "a") -> Stream[Audio]:
        for piece in text:
            piece.upper()
            yield Audio(b"", "pcm_s16", 24_000)

class Llm(Role):
    @method
    def chat(self, question: Text, context: Text | None = None) -> Stream[Text]:
        yield from question.split()

ocr, llm, tts = use(Ocr), use(Llm), use(Tts)

@flow
def speak(image: Image | None, question: Text) -> tuple[Stream[Text], Stream[Audio]]:
    answer = llm.chat(question, context=ocr.read(given(image)))
    return answer, tts.speak(answer)
"""


@pytest.mark.timeout(400)
def test_type_checkers_accept_roles_and_flows_and_catch_their_slips(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(TYPED)
    wrong = TYPED.replace("ocr.read(given(image))", "ocr.reed(image)").replace(
        'yield Audio(b"", "pcm_s16", 24_000)', "yield 5"
    )
    (tmp_path / "wrong.py").write_text(wrong)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(root / "pyproject.toml")]
    command += ["--cache-dir", str(root / ".mypy_cache"), "right.py", "wrong.py"]
    found = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={"MYPYPATH": str(root)}, check=False
    )
    errors = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[0] for line in errors] == ["wrong.py", "wrong.py"], found.stdout + found.stderr
    assert "reed" in found.stdout
    assert 'expected type "Audio"' in found.stdout
