"""Random flows with fan-out, branches and loops: what the recorder accepts, the core's validator accepts too."""

from random import Random
from typing import Literal, NamedTuple

from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

import omniflow_core
from omniflow import (
    Choice,
    Choices,
    Stream,
    Text,
    any_of,
    collect,
    each,
    flow,
    given,
    loop,
    merge,
    route,
    unordered,
    use,
)
from omniflow.flow import Flow
from omniflow.roles import Role, method
from omniflow.v1 import flow_pb2


class Draft(NamedTuple):
    text: Text
    done: bool


class Plan(NamedTuple):
    kind: Choice[Literal["one", "two"]]
    tools: Choices[Literal["one", "two"]]


class Pen(Role):
    @method
    def join(self, first: Text, second: Text | None = None) -> Text:
        raise NotImplementedError

    @method
    def both(self, first: Text, second: Text) -> Text:
        raise NotImplementedError

    @method
    def split(self, text: Text) -> Stream[Text]:
        raise NotImplementedError

    @method
    def fold(self, texts: list[Text]) -> Text:
        raise NotImplementedError

    @method
    def plan(self, text: Text) -> Plan:
        raise NotImplementedError

    @method
    def edit(self, text: Text) -> Draft:
        raise NotImplementedError


pen = use(Pen)


class Author:
    """Writes a random flow. `near` are values of the current scope, one of which every call reads; `far`: from outside.

    Whatever is made is joined into the one value that comes back, so that nothing is in vain.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def write(self, near: list[Text], far: list[Text], depth: int) -> Text:
        made = list(near)
        for _ in range(self.random.randint(1, 3)):
            steps = [self.call, self.choose] + [self.fan, self.branch, self.tools, self.cycle] * (depth > 0)
            made.append(self.random.choice(steps)(made, far, depth))
        joined = made[0]
        for other in made[1:]:
            joined = (pen.join if self.random.random() < 0.7 else pen.both)(joined, other)
        return joined

    def any(self, made: list[Text], far: list[Text]) -> Text:
        return self.random.choice([*made, *far])

    def call(self, made: list[Text], far: list[Text], depth: int) -> Text:
        return pen.join(self.random.choice(made), self.any(made, far))

    def choose(self, made: list[Text], far: list[Text], depth: int) -> Text:
        return pen.join(any_of(self.random.choice(made), pen.join(self.random.choice(made))))

    def fan(self, made: list[Text], far: list[Text], depth: int) -> Text:
        stream = pen.split(self.random.choice(made))
        if self.random.random() < 0.2:
            stream = merge(stream, pen.split(self.random.choice(made)))
        inside = (self.write([item], [*made, *far], depth - 1) for item in each(stream))
        way = self.random.randrange(3)
        if way == 0:
            return pen.fold(collect(inside))
        return pen.fold(collect(unordered(inside) if way == 1 else inside))

    def branch(self, made: list[Text], far: list[Text], depth: int) -> Text:
        around = [*made, *far]
        picks = [self.random.randrange(4) for _ in range(2)]

        def one(pick: int) -> Text | None:
            if pick == 0:
                return None if picks.count(0) == 1 else self.random.choice(around)
            return self.random.choice(around) if pick == 1 else self.write([pen.join(self.any(made, far))], around, 0)

        kind = pen.plan(self.random.choice(made)).kind
        chosen = route(kind, one=lambda: one(picks[0]), two=lambda: one(picks[1]))
        # As it is, it may be missing; joined to something as an optional input, it isn't.
        return given(chosen) if self.random.random() < 0.3 else pen.join(self.random.choice(made), chosen)

    def tools(self, made: list[Text], far: list[Text], depth: int) -> Text:
        plan = pen.plan(self.random.choice(made))
        found = route(plan.tools, one=lambda: pen.join(made[0]), two=lambda: pen.join(self.any(made, far)))
        return pen.join(self.random.choice(made), pen.fold(collect(found)))

    def cycle(self, made: list[Text], far: list[Text], depth: int) -> Text:
        def body(text: Text) -> Draft:
            return pen.edit(self.write([text], [*made, *far], depth - 1))

        start = self.random.choice(made)
        if self.random.random() < 0.5:
            return loop(body, start=start, until="done", max_rounds=3)
        return pen.fold(collect(loop(body, start=start, until="done", emit="text", max_rounds=3)))


def a_flow(seed: int, missing: bool, sure: bool) -> Flow[..., Text | None]:
    """`missing`: one input may be; `sure`: the result is declared to come always."""

    def made(a: Text, b: Text | None) -> Text | None:
        return Author(seed).write([a, pen.both(a, given(b)) if missing else pen.join(a, b)], [], 2)

    if sure:
        made.__annotations__["return"] = Text
    return flow(made)


def codes(graph: flow_pb2.Flow) -> set[str]:
    return {problem.code for problem in omniflow_core.check_flow(graph.SerializeToString())}


@settings(max_examples=120, deadline=None)
@examples(st.integers(0, 2**32), st.booleans())
def test_both_accept_the_same_flows_and_know_alike_whether_a_result_always_comes(seed: int, missing: bool) -> None:
    problems = {problem.code for problem in a_flow(seed, missing, sure=True).problems()}
    assert problems <= {"optional-result", "exclusive-join"}
    if "exclusive-join" in problems:
        return
    graph = a_flow(seed, missing, sure=False).to_proto()
    assert codes(graph) == set()
    graph.results[0].type.optional = False
    assert codes(graph) == problems
