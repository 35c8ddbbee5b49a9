"""A NamedTuple is one port per field, as an input as well as an output; choices and bools travel in them."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import pytest

from omniflow import Choice, Choices, Image, Stream, Text
from omniflow.roles import BadRole, Role, describe, method, spec_of
from omniflow.roles.memory import run_method
from omniflow.types import Branches, Kind


class Words(NamedTuple):
    title: Text
    words: Stream[Text]
    page: Image | None


class Verdict(NamedTuple):
    kind: Choice[Literal["good", "bad"]]
    tools: Choices[Literal["web", "files"]]
    done: bool


class Judge(Role):
    @method
    def shout(self, said: Words, mark: Text, *, times: int = 1) -> Stream[Text]:
        return self._shout(said, mark, times)

    def _shout(self, said: Words, mark: str, times: int) -> Iterator[str]:
        for word in said.words:
            yield f"{said.title} {word}{mark * times}{'' if said.page is None else ' (see page)'}"

    @method
    def judge(self, text: Text) -> Verdict:
        return Verdict("good" if len(text) < 4 else "bad", {"files", "web"} if text else set(), done=not text)

    @method
    def over(self, text: Text) -> bool:
        return not text


def test_every_field_of_a_bundle_is_an_input() -> None:
    spec = spec_of(Judge).methods["shout"]
    assert [(port.name, str(port.type), port.required) for port in spec.inputs] == [
        ("said.title", "Text", True),
        ("said.words", "Stream[Text]", True),
        ("said.page", "Image | None", False),
        ("mark", "Text", True),
    ]
    assert spec.bundles == {"said": Words}
    assert [port.parameter for port in describe(Judge).methods[0].inputs] == [
        "said.title",
        "said.words",
        "said.page",
        "mark",
    ]


def test_the_method_gets_the_bundle_whole() -> None:
    made = run_method(Judge(), "shout", said=Words("Sir,", iter(["go", "on"]), None), mark="!", times=2)
    assert made.error is None
    assert made.results() == ["Sir, go!!", "Sir, on!!"]


def test_choices_and_bools_are_outputs() -> None:
    kind, tools, done = spec_of(Judge).methods["judge"].outputs
    assert (kind.type.kind, kind.type.branches, str(kind.type)) == (
        Kind.TEXT,
        Branches(("good", "bad")),
        "Choice[good | bad]",
    )
    assert (tools.type.kind, tools.type.branches) == (Kind.LIST, Branches(("web", "files"), several=True))
    assert str(done.type) == "bool"
    assert [str(port.type) for port in spec_of(Judge).methods["over"].outputs] == ["bool"]
    made = run_method(Judge(), "judge", text="abcd")
    assert (made.results("kind"), made.results("tools"), made.results("done")) == (
        ["bad"],
        [frozenset({"web", "files"})],
        [False],
    )
    assert run_method(Judge(), "over", text="").results() == [True]


def test_a_bundle_has_no_default_and_holds_what_travels() -> None:
    class Defaulted(Role):
        @method
        def look(self, said: Words | None = None) -> Text:
            raise NotImplementedError

    class Whole(Role):
        @method
        def look(self, said: Words = Words("", iter([]), None)) -> Text:  # noqa: B008
            raise NotImplementedError

    class Counted(NamedTuple):
        number: int

    class Counting(Role):
        @method
        def look(self, said: Counted) -> Text:
            raise NotImplementedError

    with pytest.raises(BadRole):
        spec_of(Defaulted)
    with pytest.raises(BadRole, match="has a default, and Words is one port per field") as caught:
        spec_of(Whole)
    assert "`T | None`" in caught.value.cure
    with pytest.raises(BadRole, match=r"`said\.number` of `Counting\.look` is int, which is for parameters"):
        spec_of(Counting)


def test_a_choice_has_to_name_its_branches() -> None:
    class Vague(Role):
        @method
        def pick(self, text: Text) -> Choice[int]:  # type: ignore[type-var]
            raise NotImplementedError

    with pytest.raises(BadRole, match=r"`Choice\[int\]` does not name the branches") as caught:
        spec_of(Vague)
    assert "Literal" in caught.value.cure
