"""Each kind of mistake in fan-out, branches and loops names the user's line, says why, and how to mend it."""

from collections.abc import Callable
from typing import Any

import pytest

from omniflow.flow import Flow

Make = Callable[[str], Flow[..., Any]]

# (code, body; the mistaken line ends in "# <-", part of the message, part of the cure)
FANNING = [
    (
        "not-a-stream",
        "@flow\ndef f(q: Text) -> list[Text]:\n    return collect(llm.summary(w, words=3) for w in each(q))  # <-",
        "each(...) goes over a stream, and input `q` is a Text",
        "declare the input of the flow as Stream[...]",
    ),
    (
        "not-a-stream",
        "@flow\ndef f(qs: list[Text]) -> list[Text]:\n"
        "    return collect(llm.summary(q, words=3) for q in each(qs))  # <-",
        "input `qs` is a list[Text]",
        "declare it as Stream[Text] instead of list[Text]",
    ),
    (
        "not-a-symbol",
        "@flow\ndef f(q: Text) -> list[Text]:\n    return collect(llm.summary(w, words=3) for w in each(['a']))  # <-",
        "each(...) gets a list of 1",
        "a fixed number of values: one input each",
    ),
    (
        "outer-stream",
        "@flow\ndef f(pages: Stream[Image], words: Stream[Text]) -> list[Audio]:\n"
        "    def one(page: Image) -> Audio:\n"
        "        return llm.hear(ocr.read(page), words)  # <-\n"
        "    return collect(one(page) for page in each(pages))",
        "input `words` is a Stream[Text] from outside of each(input `pages`)",
        "collect it first, before the each",
    ),
    (
        "same-every-time",
        "@flow\ndef f(pages: Stream[Image], cover: Image) -> list[Text]:\n"
        "    return collect(ocr.read(cover) for page in each(pages))  # <-",
        "`ocr.read` reads nothing of the item of each(input `pages`)",
        "call it once, before the each",
    ),
    (
        "stream-of-streams",
        "@flow\ndef f(pages: Stream[Image]) -> list[Text]:\n"
        "    return collect(llm.chat(ocr.read(page)) for page in each(pages))  # <-",
        "is a Stream[Text] for every item of each(input `pages`)",
        "collect each one inside",
    ),
    (
        "nested-each",
        "@flow\ndef f(pages: Stream[Image]) -> list[Text]:\n    return collect(  # <-\n"
        "        llm.summary(line, words=3) for page in each(pages) for line in each(splitter.lines(ocr.read(page)))\n"
        "    )",
        "comes out of 2 each(...) at once",
        "put a collect around every each",
    ),
    (
        "nothing-to-collect",
        "@flow\ndef f(q: Text) -> list[Text]:\n    return collect(llm.summary(q, words=3))  # <-",
        "collect takes a stream, or what an each(...) makes, and the result of `llm.summary` is a Text",
        "or pass the value as it is",
    ),
    (
        "nothing-to-collect",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return unordered(llm.chat(q))  # <-",
        "unordered takes what an each(...) makes",
        "unordered(role.method(item) for item in each(stream))",
    ),
    (
        "not-an-each",
        "@flow\ndef f(a: Text, b: Text) -> list[Text]:\n"
        "    return collect(llm.summary(q, words=3) for q in (a, b))  # <-",
        "this generator makes 2 values",
        "let it go over each(...) alone",
    ),
    (
        "each-left-early",
        "@flow\ndef f(ps: Stream[Image]) -> Text:\n    for page in each(ps):  # <-\n        return ocr.read(page)",
        "each(input `ps`) is left early",
        "return after it",
    ),
    (
        "dangling-node",
        "@flow\ndef f(q: Text, pages: Stream[Image]) -> Stream[Text]:\n    for page in each(pages):\n"
        "        ocr.read(page)  # <-\n    return llm.chat(q)",
        "nothing uses what `ocr.read` makes",
        "return it, or remove the call",
    ),
    (
        "wrong-type",
        "@flow\ndef f(a: Stream[Text], b: Stream[Image]) -> Stream[Text]:\n    return merge(a, b)  # <-",
        "merge joins values of one type: input `a` is Stream[Text], input `b` is Stream[Image]",
        "convert them to one type",
    ),
    (
        "not-a-stream",
        "@flow\ndef f(a: Stream[Text], b: Text) -> tuple[Stream[Text], Stream[Text]]:\n"
        "    return zip_streams(a, b)  # <-",
        "zip_streams(...) goes over a stream, and input `b` is a Text",
        "let the role yield it",
    ),
    (
        "wrong-type",
        "@flow\ndef f(pages: Stream[Image]) -> Text:\n"
        "    return splitter.join(ocr.read(page) for page in each(pages))  # <-",
        "`texts` of `splitter.join` wants list[Text], and the result of `ocr.read` for each item is Stream[Text]",
        "pass collect(...) of it",
    ),
    (
        "outside-flow",
        "try:\n    collect([])  # <-\nexcept Exception as e:\n    error = e\n"
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    raise error",
        "`collect` is called outside a flow",
        "inside a function decorated with @flow",
    ),
]

ROUTING = [
    (
        "not-a-choice",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return route(q, a=lambda: llm.chat(q))  # <-",
        "route(...) goes by a Choice, and input `q` is a Text",
        'Choice[Literal["one", "other"]]',
    ),
    (
        "unknown-branch",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=lambda: llm.chat(q), lnog=lambda: llm.chat(plan.note))  # <-",
        "`kind` of `planner.plan` never chooses `lnog`",
        "did you mean `long`?",
    ),
    (
        "missing-branch",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=lambda: llm.chat(q))  # <-",
        "may choose `long`, for which route(...) has no branch",
        "add `long=lambda: ...`",
    ),
    (
        "branch-without-lambda",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=llm.chat(q), long=lambda: llm.chat(q))  # <-",
        "branch `short` of route(...) is a value already",
        "write `short=lambda: ...`",
    ),
    (
        "branches-differ",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=lambda: llm.chat(q), long=lambda: llm.think(q))  # <-",
        "return different things: `short` one value, `long` Words",
        "return the same NamedTuple, or one value of the same type",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=lambda: llm.chat(q), long=lambda: llm.summary(q, words=3))  # <-",
        "route joins values of one type",
        "convert them to one type",
    ),
    (
        "empty-route",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    return any_of(route(plan.kind, short=lambda: None, long=lambda: None), llm.chat(q))  # <-",
        "no branch of route(...) returns anything",
        "return what the branches make",
    ),
    (
        "left-scope",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    plan, kept = planner.plan(q), []\n"
        "    answer = route(plan.kind, short=lambda: kept.append(llm.summary(q, words=3)), long=lambda: llm.chat(q))\n"
        "    return any_of(answer, llm.chat(kept[0]))  # <-",
        "the result of `llm.summary` is made inside branch `short` of `route`",
        "return it from the branch",
    ),
    (
        "exclusive-join",
        "@flow\ndef f(q: Text) -> Text | None:\n    plan = planner.plan(q)\n"
        "    one = route(plan.kind, short=lambda: llm.summary(q, words=3), long=lambda: None)\n"
        "    two = route(plan.kind, short=lambda: None, long=lambda: llm.summary(q, words=9))\n"
        "    return llm.both(given(one), given(two))  # <-",
        "`llm.both` waits for values of branches that exclude each other",
        "pass on what route(...) returns",
    ),
    (
        "optional-result",
        "@flow\ndef f(q: Text) -> Text:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=lambda: llm.summary(q, words=3), long=lambda: None)  # <-",
        "is missing when",
        "declare it as `Text | None`",
    ),
    (
        "one-branch",
        "@flow\ndef f(q: Text) -> Stream[Text] | None:\n    plan = planner.plan(q)\n"
        "    return route(plan.tools, web=lambda: llm.chat(q), files=lambda: None)  # <-",
        "only one branch of a route over Choices returns something",
        "let the role return a Choice",
    ),
    (
        "bundle-of-choices",
        "@flow\ndef f(q: Text) -> Stream[Text] | None:\n    plan = planner.plan(q)\n"
        "    return route(plan.tools, web=lambda: llm.think(q), files=lambda: llm.think(q))  # <-",
        "merged into one stream, and Words is several values",
        "return one value from each branch",
    ),
]

LOOP = "return loop(body, start=q, until='done', emit='text', max_rounds=4)  # <-"
LOOPS = [
    (
        "loop-bound",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(planner.edit, start=q, until='done')  # <-",
        "max_rounds of loop `planner.edit` is missing: a loop without a bound might never end",
        "give the most rounds that make sense",
    ),
    (
        "loop-end",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(planner.edit, start=q, max_rounds=4)  # <-",
        "until of loop `planner.edit` is missing: it would not know when it is over",
        "name the bool field",
    ),
    (
        "loop-bound",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(lambda text: planner.edit(text), start=q, until='done', "
        "max_rounds=0)  # <-",
        "max_rounds of loop `<lambda>` is 0: a loop without a bound might never end",
        "give the most rounds that make sense",
    ),
    (
        "unknown-field",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(planner.edit, start=q, until='over', max_rounds=4)  # <-",
        "until=`over` of loop `planner.edit` names nothing that its body returns (`text`, `page`, `done`)",
        "add `over` to the NamedTuple",
    ),
    (
        "not-a-bool",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(planner.edit, start=q, until='text', max_rounds=4)  # <-",
        "until=`text` of loop `planner.edit` is a Text",
        "True after the last round",
    ),
    (
        "loop-body",
        "@flow\ndef f(q: Text) -> Text:\n    def body(text: Text) -> Text:\n        return llm.summary(text, words=3)\n"
        "    return loop(body, start=q, until='done', max_rounds=4)  # <-",
        "the body of loop `body` returns one value, in which until=`done` cannot be found",
        "return a NamedTuple with the next state and `done: bool`",
    ),
    (
        "loop-body",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(lambda a, b: planner.edit(a), start=q, until='done', "
        "max_rounds=4)  # <-",
        "takes 2 values (a, b), and start= has 1",
        "start= give each of it",
    ),
    (
        "not-carried",
        "@flow\ndef f(q: Text) -> Text:\n    return loop(lambda words: planner.edit(words), start=q, until='done', "
        "max_rounds=4)  # <-",
        "carries `words`, and its body returns `text`, `page`, `done`",
        "name the body's parameter after the field",
    ),
    (
        "wrong-type",
        "@flow\ndef f(page: Image) -> Image:\n    def body(text: Image) -> Draft:\n"
        "        return planner.edit(ocr.read(text))\n"
        "    return loop(body, start=page, until='done', max_rounds=4)  # <-",
        "starts with `text` as an Image and goes on with a Text",
        "carry one type through all rounds",
    ),
    (
        "stream-in-loop",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    def body(text: Text) -> Answer:\n"
        "        return Draft(llm.chat(text), None, planner.edit(text).done)\n    " + LOOP,
        "which loop `body` carries is a Stream[Text]",
        "collect it inside the body",
    ),
    (
        "stream-in-loop",
        "@flow\ndef f(words: Stream[Text]) -> Text:\n    return loop(planner.edit, start=words, until='done', "
        "max_rounds=4)  # <-",
        "is a Stream[Text], and a round makes one value of it",
        "collect it",
    ),
    (
        "same-every-time",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    def body(text: Text) -> Draft:\n"
        "        note = llm.summary(q, words=3)  # <-\n        draft = planner.edit(text)\n"
        "        return Draft(llm.summary(note, words=4), None, draft.done)\n"
        "    return loop(body, start=q, until='done', emit='text', max_rounds=4)",
        "`llm.summary` reads nothing of the state of loop `body`",
        "call it once, before the loop",
    ),
    (
        "left-scope",
        "@flow\ndef f(q: Text) -> Text:\n    kept = []\n    def body(text: Text) -> Draft:\n"
        "        kept.append(llm.summary(text, words=3))\n        return planner.edit(kept[0])\n"
        "    last = loop(body, start=q, until='done', max_rounds=4)\n"
        "    return llm.both(last, kept[0])  # <-",
        "the result of `llm.summary` is made inside loop `body`",
        "return it from the loop's body",
    ),
    (
        "state-without-value",
        "@flow\ndef f(q: Text) -> Text | None:\n    start = Draft(q, None, None)\n"
        "    return loop(planner.polish, start=start, until='done', max_rounds=4).text  # <-",
        "`loop` carries `page`, which is read, and has nothing to start with: None",
        "give `page` a value in start=",
    ),
    (
        "dangling-node",
        "@flow\ndef f(q: Text) -> Text:\n    loop(planner.edit, start=q, until='done', max_rounds=4)  # <-\n"
        "    return llm.summary(q, words=3)",
        "nothing uses what `loop` makes",
        "or remove the call",
    ),
]

OTHERS = [
    (
        "field-of-record",
        "@record\nclass Card:\n    title: Text\n@flow\ndef f(card: Card) -> Stream[Text]:\n"
        "    return llm.chat(card.title)  # <-",
        "input `card` reads `.title`",
        "declare Card as a NamedTuple",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text) -> Text:\n    return planner.polish(q).text  # <-",
        "`draft` of `planner.polish` wants a Draft, several values (draft.text, draft.page, draft.done), got input `q`",
        "pass what a method or flow that returns Draft made",
    ),
    (
        "missing-argument",
        "@flow\ndef f(q: Text) -> Text:\n    return llm.both(planner.polish().text, q)  # <-",
        "`planner.polish` lacks its input `draft` (Draft)",
        "its signature: polish(draft: Draft)",
    ),
    (
        "not-a-symbol",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(llm.think(q))  # <-",
        "`question` of `llm.chat` gets a whole Words, several values (`text`, `codes`)",
        "pass one of its fields, e.g. `.text`",
    ),
    (
        "bad-option",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return options(llm.chat, max_attempts=0)(q)  # <-",
        "max_attempts of `llm.chat` is 0, so it could never run",
        "1 means at most once",
    ),
    (
        "bad-option",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return options(llm.chat, deadline_share=1.5)(q)  # <-",
        "deadline_share of `llm.chat` is 1.5",
        "above 0 and at most 1",
    ),
    (
        "bad-option",
        "@flow\ndef g(q: Text) -> Stream[Text]:\n    return llm.chat(q)\n"
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return options(g, max_attempts=1)(q)  # <-",
        "options(...) is for one node, and `g` is a flow of several",
        "inside `g`: options(llm.chat, ...)",
    ),
    (
        "wrong-call",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return options(llm.chat, max_atempts=1)(q)  # <-",
        "options() got an unexpected keyword argument 'max_atempts'",
        "did you mean `max_attempts`?",
    ),
    (
        "bad-option",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return options(len, max_attempts=1)(llm.chat(q))  # <-",
        "options(...) wants a method of a role's handle",
        "options(llm.chat, ...)",
    ),
    (
        "bad-option",
        "@flow\ndef f(q: Text) -> Stream[Text]:\n    return options(llm.chat, near='gpu')(q)  # <-",
        "near of `llm.chat` is 'gpu'",
        "pass a result of a node",
    ),
    (
        "parameter-as-input",
        "@flow\ndef f(q: Text, words: int = 3) -> Stream[Text]:\n    return llm.chat(words)  # <-",
        "`question` of `llm.chat` gets parameter `words`, a constant of each job",
        "declare it as Text",
    ),
    (
        "wrong-type",
        "@flow\ndef f(q: Text, words: str = 'x') -> Text:\n    return llm.summary(q, words=words)  # <-",
        "`words` of `llm.summary` wants int, and parameter `words` is str",
        "declare it as int in the flow",
    ),
    (
        "bad-input",
        "@flow\ndef f(q: Text,\n      words: int = 'x') -> Text:  # <-\n    return llm.summary(q, words=words)",
        "the default of parameter `words` wants int, got str",
        "pass an int",
    ),
    (
        "unused-parameter",
        "@flow\ndef f(q: Text,\n      words: int = 3) -> Stream[Text]:  # <-\n    return llm.chat(q)",
        "parameter `words` of `f` is never used",
        "pass it to a method",
    ),
    (
        "bad-annotation",
        "class Odd(Role):\n    @method\n    def go(self, q: Text) -> Choice[int]: ...\nodd = use(Odd)\n"
        "@flow\ndef f(q: Choice[int]) -> Text:  # <-\n    return llm.summary(q, words=3)",
        "`Choice[int]` does not name the branches",
        'Choice[Literal["one", "other"]]',
    ),
]

MISTAKES = [*FANNING, *ROUTING, *LOOPS, *OTHERS]


@pytest.mark.parametrize(
    ("code", "body", "why", "cure"), MISTAKES, ids=[f"{each[0]}-{n}" for n, each in enumerate(MISTAKES)]
)
def test_a_mistake_shows_its_line_its_reason_and_its_cure(
    shown: Callable[[str, str, str, str], None], code: str, body: str, why: str, cure: str
) -> None:
    shown(code, body, why, cure)
