"""Each kind of mistake names the user's line, says why, and how to mend it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omniflow.errors import BadFlow
from omniflow.flow import Flow, load_flows

Make = Callable[[str], Flow[..., Any]]

# (code, body; the mistaken line ends in "# <-", part of the message, part of the cure)
MISTAKES = [
    (
        "unknown-method",
        "@flow\ndef f(image: Image) -> Text:\n    return ocr.reed(image)  # <-",
        "role `ocr` (Ocr) has no method `reed`",
        "did you mean `read`?",
    ),
    (
        "unpublished-method",
        "@flow\ndef f(image: Image) -> Text:\n    return ocr.helper(image)  # <-",
        "`helper` of `Ocr` is not published",
        "decorate it with @method",
    ),
    (
        "unknown-parameter",
        "@flow\ndef f(q: Text, c: Text) -> Stream[Text]:\n    return llm.chat(q, contxt=c)  # <-",
        "`llm.chat` has no input or parameter `contxt`",
        "did you mean `context`?",
    ),
    (
        "missing-argument",
        "@flow\ndef f(c: Text) -> Stream[Text]:\n    return llm.chat(context=c)  # <-",
        "`llm.chat` lacks its input `question` (Text)",
        "pass `question=...`",
    ),
    (
        "missing-argument",
        "@flow\ndef f(q: Text) -> Text:\n    return llm.summary(q)  # <-",
        "lacks its parameter `words` (int)",
        "summary(text: Text, *, words: int)",
    ),
    (
        "too-many-arguments",
        "@flow\ndef f(image: Image) -> Text:\n    return ocr.read(image, image)  # <-",
        "takes at most 1 by position, got 2",
        "read(image: Image)",
    ),
    (
        "argument-twice",
        "@flow\ndef f(image: Image) -> Text:\n    return ocr.read(image, image=image)  # <-",
        "gets `image` twice",
        "pass it once",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Text:\n    return ocr.read(q)  # <-",
        "`image` of `ocr.read` wants Image, and input `q` is Text",
        "pass an Image",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Stream[Audio]:\n    return tts.speak(q)  # <-",
        "wants Stream[Text], and input `q` is Text",
        "a method that yields Stream[Text]",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Text:\n    return llm.summary(llm.chat(q), words=5)  # <-",
        "wants Text, and the result of `llm.chat` is Stream[Text]",
        "let a role make one value of it; or declare `text` as Stream[...]",
    ),
    (
        "wrong-type",
        '@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q, max_tokens="many")  # <-',
        "`max_tokens` of `llm.chat` wants int, got str",
        "pass an int",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(None)  # <-",
        "`question` of `llm.chat` wants Text, got None",
        "pass a Text",
    ),
    (
        "symbol-as-parameter",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q, max_tokens=q)  # <-",
        "`max_tokens` of `llm.chat` is a parameter (int)",
        "override as `llm.chat.max_tokens`",
    ),
    (
        "node-without-input",
        '@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat("hello")  # <-',
        "nothing of the flow feeds `llm.chat`",
        "pass it an input of the flow",
    ),
    (
        "if-on-symbol",
        "@flow\ndef f(image: Image, q: Text) -> Stream[Text]:\n    seen = ocr.read(image)\n    if seen:  # <-\n"
        "        return llm.chat(seen)\n    return llm.chat(q)",
        "the result of `ocr.read` is tested",
        "an input that is `T | None` runs its nodes only when it came",
    ),
    (
        "iterated-symbol",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    for word in llm.chat(q):  # <-\n        pass\n"
        "    return llm.chat(q)",
        "the result of `llm.chat` is iterated",
        "`collect(role.method(item) for item in each(stream))`",
    ),
    (
        "compared-symbol",
        '@flow\ndef f(q: Text) -> Stream[Text]:\n    same = q == "x"  # <-\n    return llm.chat(q)',
        "input `q` is compared",
        "let a role compare",
    ),
    (
        "formatted-symbol",
        '@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(f"Answer: {q}")  # <-',
        "input `q` is made a string",
        "the role can join texts",
    ),
    (
        "computed-symbol",
        '@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q + "!")  # <-',
        "input `q` is computed with",
        "let a role do it",
    ),
    (
        "attribute-of-symbol",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q.upper())  # <-",
        "input `q` reads `.upper`",
        "let a role do it",
    ),
    (
        "unused-input",
        "@flow\ndef f(q: Text,\n      spare: Image) -> Stream[Text]:  # <-\n    return llm.chat(q)",
        "input `spare` of `f` is never used",
        "remove it from the function",
    ),
    (
        "dangling-node",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    answer = llm.chat(q)\n    tts.speak(answer)  # <-\n"
        "    return answer",
        "nothing uses what `tts.speak` makes",
        "return it, or remove the call",
    ),
    (
        "not-a-symbol",
        '@flow\ndef f(q: Text) -> Text:\n    llm.chat(q)\n    return "done"  # <-',
        "result `result` of `f` is a constant (str)",
        "return an input of the flow or a node's result",
    ),
    (
        "not-a-symbol",
        "@flow\ndef f(q: Text) -> Text:  # <-\n    llm.chat(q)",
        "is nothing (None)",
        "return an input of the flow or a node's result",
    ),
    (
        "result-count",
        "@flow\ndef f(q: Text) -> tuple[Stream[Text], Stream[Audio]]:\n    return (llm.chat(q),)  # <-",
        "returns 1 results and declares 2",
        "return one symbol for each",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Text:\n    return llm.chat(q)  # <-",
        "result `result` is declared Text, and the result of `llm.chat` (line",
        "declare it as Stream[Text]",
    ),
    (
        "optional-result",
        "@flow\ndef f(image: Image | None) -> Text:\n    return ocr.read(given(image))  # <-",
        "is missing when something optional that it needs is",
        "declare it as `Text | None`",
    ),
    (
        "wrong-type",
        "@flow\ndef f(a: Text, b: Image) -> Stream[Text]:\n    return llm.chat(any_of(a, b))  # <-",
        "any_of joins values of one type: input `a` is Text, input `b` is Image",
        "convert them to one type",
    ),
    (
        "not-a-symbol",
        '@flow\ndef f(a: Text) -> Stream[Text]:\n    return llm.chat(any_of(a, "b"))  # <-',
        "any_of(...) gets a constant (str)",
        "pass an input of the flow or another node's result",
    ),
    (
        "no-result",
        "@flow\ndef f(q: Text):  # <-\n    return llm.chat(q)",
        "flow `f` does not say what it returns",
        "-> Stream[Text]",
    ),
    (
        "bad-input",
        "@flow\ndef f(q: Text,\n      n: int) -> Stream[Text]:  # <-\n    return llm.chat(q, max_tokens=n)",
        "parameter `n` of the flow (int) has no default",
        "write `n: int = ...`, which a job may override",
    ),
    (
        "bad-input",
        "@flow\ndef f(q) -> Stream[Text]:  # <-\n    return llm.chat(q)",
        "input `q` has no annotation",
        "q: Text",
    ),
    (
        "bad-input",
        '@flow\ndef f(q: Text = "hi") -> Stream[Text]:  # <-\n    return llm.chat(q)',
        "input `q` has a default",
        "make it optional",
    ),
    (
        "bad-annotation",
        "@flow\ndef f(q: bytes) -> Stream[Text]:  # <-\n    return llm.chat(q)",
        "`bytes` is no type that travels",
        "use Text, Image",
    ),
    (
        "raised",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(question_)  # <-",
        "NameError: name 'question_' is not defined",
        "correct this line",
    ),
    (
        "used-before-made",
        "@flow\ndef f(q: Text) -> Text:\n    one = llm.both(q, two)  # <-\n    two = llm.both(q, one)\n    return two",
        "`two` is used before it is made",
        "what goes round in a circle is a `loop(",
    ),
    (
        "endless-recording",
        "@flow\ndef f(q: Text) -> Text:\n    return f(llm.both(q, q))  # <-",
        "a function calls itself",
        "repeat with `loop(body, start=...",
    ),
    (
        "unknown-field",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    words = llm.think(q)\n    return words.txt  # <-",
        "Words has no field `txt`",
        "did you mean `text`? its fields: `text`, `codes`",
    ),
    (
        "wrong-call",
        "@flow\ndef g(q: Text, *, most: int = 3) -> Stream[Text]:\n    return llm.chat(q, max_tokens=most)\n"
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return g(q, mots=5)  # <-",
        "g() got an unexpected keyword argument 'mots'",
        "did you mean `most`? its signature: g(q, *, most=3)",
    ),
    (
        "wrong-call",
        "@flow\ndef f(q: Text) -> Text:\n    return any_of(q)  # <-",
        "any_of() missing 1 required positional argument: 'second'",
        "its signature: any_of(first, second, *more)",
    ),
    (
        "not-a-function",
        "@flow\nasync def f(q: Text) -> Stream[Text]:  # <-\n    return await llm.chat(q)",
        "flow `f` is an `async def`",
        "write `def`, and call roles without `await`",
    ),
    (
        "not-a-function",
        "@flow\ndef f(q: Text) -> Stream[Text]:  # <-\n    yield from llm.chat(q)",
        "flow `f` is a generator",
        "return the stream that a role makes",
    ),
    (
        "outside-flow",
        "try:\n    llm.chat('x')  # <-\nexcept Exception as e:\n    error = e\n"
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    raise error",
        "`llm.chat` is called outside a flow",
        "submit the flow by a client",
    ),
    (
        "foreign-symbol",
        "kept = []\n@flow\ndef g(q: Text) -> Stream[Text]:\n    kept.append(q)\n    return llm.chat(q)\ng.to_proto()\n"
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q, context=kept[0])  # <-",
        "input `q` belongs to another flow",
        "call that flow inside this one",
    ),
    (
        "role-without-use",
        "class Plain(Role):\n    @method\n    def read(self, image: Image) -> Text:\n        return str(image.pil())\n"
        "@flow\ndef f(image: Image) -> Text:\n    return Plain().read(image)  # <-",
        "a role's method is run here",
        "`ocr = use(Ocr)`",
    ),
    (
        "bad-role",
        "class Vague(Role):\n    @method\n    def look(self, image) -> Text: ...\nvague = use(Vague)\n"
        "@flow\ndef f(image: Image) -> Text:\n    return vague.look(image)  # <-",
        "`image` of `Vague.look` has no annotation",
        "annotate it",
    ),
    (
        "wrong-type",
        "@flow\ndef brief(q: Text, *, words: int = 3) -> Text:\n    return llm.summary(q, words=words)\n"
        '@flow\ndef f(q: Text) -> Text:\n    return brief(q, words="few")  # <-',
        "`words` of flow `brief` wants int, got str",
        "pass an int",
    ),
    (
        "wrong-type",
        "@flow\ndef brief(q: Text, *, words: int = 3) -> Text:\n    return llm.summary(q, words=words)\n"
        "@flow\ndef f(q: Text) -> Text:\n    return brief(q, words=q)  # <-",
        "`words` of flow `brief` is a parameter (int), a constant of the flow, and input `q` exists only when a job"
        " runs",
        "pass a constant or a parameter of this flow",
    ),
    (
        "wrong-type",
        "@flow\ndef brief(q: Text, *, words: int = 3) -> Text:\n    return llm.summary(q, words=words)\n"
        "@flow\ndef f(image: Image) -> Text:\n    return brief(image)  # <-",
        "`q` of flow `brief` wants Text, and input `image` is Image",
        "pass a Text",
    ),
    (
        "wrong-type",
        "@flow\ndef brief(q: Text, *, words: int = 3) -> Text:\n    return llm.summary(q, words=words)\n"
        "@flow\ndef f(q: Text, *, length: str = '3') -> Text:\n    return brief(q, words=length)  # <-",
        "`words` of flow `brief` wants int, and parameter `length` is str",
        "pass an int",
    ),
]


@pytest.mark.parametrize(
    ("code", "body", "why", "cure"), MISTAKES, ids=[f"{each[0]}-{n}" for n, each in enumerate(MISTAKES)]
)
def test_a_mistake_shows_its_line_its_reason_and_its_cure(
    shown: Callable[[str, str, str, str], None], code: str, body: str, why: str, cure: str
) -> None:
    shown(code, body, why, cure)


def test_one_run_shows_all_mistakes(the_flow: Make) -> None:
    flow = the_flow(
        "@flow\ndef f(image: Image, q: Text) -> Stream[Text]:\n"
        "    seen = ocr.reed(image)\n    return llm.chat(q, contxt=seen, max_tokens='x')\n"
    )
    codes = [problem.code for problem in flow.problems()]
    assert codes == ["unknown-method", "unknown-parameter", "wrong-type"]


def test_a_mistake_is_not_reported_again_where_its_result_goes(the_flow: Make) -> None:
    flow = the_flow("@flow\ndef f(image: Image) -> Stream[Audio]:\n    return tts.speak(ocr.reed(image))\n")
    assert [problem.code for problem in flow.problems()] == ["unknown-method"]


def test_use_of_what_is_no_role_class_is_refused(written: Callable[[str], Path]) -> None:
    with pytest.raises(BadFlow, match=r"use\(\) wants a role class") as caught:
        load_flows(str(written("wrong = use(Ocr())\n")))
    (problem,) = caught.value.problems
    assert problem.cure == "pass the class itself, without brackets: use(Ocr)"
    assert problem.source is not None
    assert problem.source.text == "wrong = use(Ocr())"


def test_a_role_called_outside_of_flows_is_one_problem_of_the_file(written: Callable[[str], Path]) -> None:
    with pytest.raises(BadFlow) as caught:
        load_flows(str(written("early = llm.chat('hello')\n")))
    (problem,) = caught.value.problems
    assert problem.code == "outside-flow"
    assert problem.source is not None
    assert problem.source.text == "early = llm.chat('hello')"


def test_a_file_that_raises_is_shown_with_its_line(written: Callable[[str], Path]) -> None:
    with pytest.raises(BadFlow, match=r"ZeroDivisionError") as caught:
        load_flows(str(written("x = 1 / 0\n")))
    assert "x = 1 / 0" in str(caught.value)


def test_a_file_with_a_syntax_error_is_shown_with_its_line(written: Callable[[str], Path]) -> None:
    with pytest.raises(BadFlow, match=r"SyntaxError") as caught:
        load_flows(str(written("def f(:\n")))
    assert "def f(:" in str(caught.value)


def test_calling_a_flow_says_how_to_run_it(the_flow: Make) -> None:
    flow = the_flow("@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q)\n")
    with pytest.raises(BadFlow, match="submit it"):
        flow("hello")
