"""The recorder and the core's validator agree: what one accepts, the other does."""

from typing import Any

from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

import omniflow_core
from omniflow import Text, any_of, flow, use
from omniflow.flow import Flow
from omniflow.roles import Role, method
from omniflow.v1 import flow_pb2


class Pen(Role):
    @method
    def join(self, first: Text, second: Text | None = None) -> Text:
        raise NotImplementedError


pen = use(Pen)

# A step: (whether its first argument is a choice, which symbols it takes), as fractions of the symbols so far.
STEPS = st.lists(st.tuples(st.booleans(), st.booleans(), *[st.floats(0, 0.999)] * 4), min_size=1, max_size=7)


def build(optional: list[bool], steps: list[tuple[Any, ...]], closed: frozenset[int]) -> Flow[..., Any]:
    """A flow of these steps; every symbol that nothing takes is a result, `| None` where `closed` has its index."""
    names = [f"i{index}" for index in range(len(optional))]
    taken: set[str] = set()
    lines = []
    for index, (chooses, has_second, *picks) in enumerate(steps):
        one, other, three, four = (names[int(pick * len(names))] for pick in picks)
        first = f"any_of({one}, {other})" if chooses and one != other else one
        second = (f"any_of({three}, {four})" if chooses and three != four else three) if has_second else "None"
        taken |= {one} | ({other} if chooses else set()) | ({three} if has_second else set())
        taken |= {four} if chooses and has_second else set()
        lines.append(f"    n{index} = pen.join({first}, {second})")
        names.append(f"n{index}")
    # Inputs that no step takes are left out: the recorder refuses them.
    inputs = [name for name in names[: len(optional)] if name in taken]
    results = [name for name in names[len(optional) :] if name not in taken]
    arguments = ", ".join(f"{name}: Text{' | None' if optional[int(name[1:])] else ''}" for name in inputs)
    returns = ", ".join("Text | None" if index in closed else "Text" for index in range(len(results)))
    source = (
        f"def made({arguments}) -> tuple[{returns}]:\n" + "\n".join(lines) + f"\n    return ({', '.join(results)},)\n"
    )
    scope: dict[str, Any] = {"Text": Text, "any_of": any_of, "pen": pen}
    exec(source, scope)
    return flow(scope["made"])


def core_codes(graph: flow_pb2.Flow) -> list[str]:
    return [problem.code for problem in omniflow_core.check_flow(graph.SerializeToString())]


@settings(max_examples=150, deadline=None)
@examples(st.lists(st.booleans(), min_size=1, max_size=4), STEPS)
def test_what_the_recorder_accepts_the_core_accepts(optional: list[bool], steps: list[tuple[Any, ...]]) -> None:
    problems = build(optional, steps, frozenset()).problems()
    assert {problem.code for problem in problems} <= {"optional-result"}
    closed = frozenset(int(problem.message.split("`")[1].removeprefix("result")) for problem in problems)
    graph = build(optional, steps, closed).to_proto()
    assert core_codes(graph) == []

    # The core finds the same results missing when they are declared to come.
    for index in closed:
        graph.results[index].type.optional = False
    assert core_codes(graph) == ["optional-result"] * len(closed)


def test_a_problem_that_only_the_core_finds_gets_the_users_line() -> None:
    from omniflow.flow.check import check_graph

    graph = build([False], [(False, False, 0.0, 0.0, 0.0, 0.0)], frozenset()).to_proto()
    graph.nodes[0].ClearField("trigger")
    graph.nodes[0].source.file, graph.nodes[0].source.line = __file__, 1
    (problem,) = [each for each in check_graph(graph) if each.code == "empty-trigger"]
    assert problem.node == "pen.join"
    assert problem.source is not None
    assert (problem.source.file, problem.source.line) == (__file__, 1)
    assert "test_flow_core_agreement.py:1" in problem.render()
