"""`check_flow`: the core's verdict on a compiled flow."""

from __future__ import annotations

import pytest

from omniflow.v1 import flow_pb2, value_pb2
from omniflow_core._native import CoreError, FlowProblem, WireError, check_flow

TEXT = value_pb2.Type(kind=value_pb2.KIND_TEXT)
TEXTS = value_pb2.Type(kind=value_pb2.KIND_TEXT, stream=True)


def port(name: str, kind: value_pb2.Type) -> flow_pb2.Port:
    return flow_pb2.Port(name=name, type=kind, parameter=name)


def edge(start: flow_pb2.End, to: flow_pb2.End, kind: value_pb2.Type) -> flow_pb2.Edge:
    made = flow_pb2.Edge(to=to, type=kind)
    getattr(made, "from").CopyFrom(start)  # the field's name is a word of Python
    return made


def chat() -> flow_pb2.Flow:
    """question -> llm.chat -> answer, which works."""
    end = flow_pb2.End
    return flow_pb2.Flow(
        name="chat",
        inputs=[port("question", TEXT)],
        nodes=[
            flow_pb2.Node(
                name="llm.chat",
                role="llm",
                method="chat",
                inputs=[port("question", TEXT)],
                outputs=[port("text", TEXTS)],
                trigger=[flow_pb2.Alternative(ports=[0])],
            )
        ],
        edges=[
            edge(end(place=end.INPUT), end(place=end.NODE), TEXT),
            edge(end(place=end.NODE), end(place=end.RESULT), TEXTS),
        ],
        results=[port("answer", TEXTS)],
    )


def check(flow: flow_pb2.Flow) -> list[FlowProblem]:
    return check_flow(flow.SerializeToString())


def test_a_flow_that_works_has_no_problems() -> None:
    assert check(chat()) == []


def test_a_problem_says_what_where_and_how_to_mend_it() -> None:
    flow = chat()
    flow.nodes[0].inputs[0].type.kind = value_pb2.KIND_IMAGE
    [problem] = check(flow)
    assert problem.code == "type-mismatch"
    assert problem.message == "parameter `question` of llm.chat takes Image, but the flow's input `question` gives Text"
    assert problem.cure == "pass a value of type Image, or put a role between them that makes one"
    assert (problem.node, problem.edge) == (0, 0)
    assert "type-mismatch" in repr(problem)


def test_a_problem_of_no_node_has_none() -> None:
    flow = chat()
    del flow.edges[1]
    assert [(problem.code, problem.node) for problem in check(flow)] == [
        ("dangling-node", 0),
        ("unreachable-result", None),
    ]


def test_a_flow_of_another_version_is_a_problem_and_no_crash() -> None:
    flow = chat()
    flow.edges[0].to.node = 7
    flow.results[0].ClearField("type")
    assert {problem.code for problem in check(flow)} == {"broken-reference"}


def test_other_bytes_are_a_wire_error() -> None:
    with pytest.raises(WireError, match=r"no serialized omniflow\.v1\.Flow"):
        check_flow(b"\xff\xff\xff")
    assert issubclass(WireError, CoreError)
