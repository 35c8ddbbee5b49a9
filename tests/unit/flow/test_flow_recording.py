"""A flow function becomes the graph that it reads as."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from omniflow.errors import BadFlow, InvalidArgument, UnknownFlow
from omniflow.flow import Flow, load_flows
from omniflow.v1 import flow_pb2, value_pb2

Make = Callable[[str], Flow[..., Any]]

SPEAK = """\
@flow
def speak_about(image: Image | None, question: Text) -> Answer:
    '''Answers aloud.'''
    seen = ocr.read(given(image))
    answer = llm.chat(question, context=seen, max_tokens=32)
    return Answer(text=answer, speech=tts.speak(answer))
"""


def wires(flow: flow_pb2.Flow) -> list[str]:
    """Edges as "image -> ocr.read.image"."""

    def source(end: flow_pb2.End) -> str:
        if end.place == flow_pb2.End.INPUT:
            return flow.inputs[end.port].name
        node = flow.nodes[end.node]
        return f"{node.name}.{node.outputs[end.port].name}"

    def target(end: flow_pb2.End) -> str:
        if end.place == flow_pb2.End.RESULT:
            return flow.results[end.port].name
        node = flow.nodes[end.node]
        return f"{node.name}.{node.inputs[end.port].name}"

    return [f"{source(getattr(edge, 'from'))} -> {target(edge.to)}" for edge in flow.edges]


def test_calls_become_nodes_and_arguments_edges(the_flow: Make) -> None:
    graph = the_flow(SPEAK).to_proto()
    assert (graph.name, graph.doc, graph.source.function) == ("speak_about", "Answers aloud.", "speak_about")
    assert [(node.name, node.role, node.method) for node in graph.nodes] == [
        ("ocr.read", "ocr", "read"),
        ("llm.chat", "llm", "chat"),
        ("tts.speak", "tts", "speak"),
    ]
    assert wires(graph) == [
        "image -> ocr.read.image",
        "question -> llm.chat.question",
        "ocr.read.result -> llm.chat.context",
        "llm.chat.result -> tts.speak.text",
        "llm.chat.result -> text",
        "tts.speak.result -> speech",
    ]
    assert graph.inputs[0].type.optional
    assert not graph.inputs[1].type.optional
    assert [list(alternative.ports) for alternative in graph.nodes[1].trigger] == [[0, 1]]
    assert graph.nodes[1].inputs[1].type.optional
    assert dict(graph.nodes[1].parameters) == {"max_tokens": value_pb2.Value(integer=32)}


def test_every_node_knows_its_line(the_flow: Make) -> None:
    graph = the_flow(SPEAK).to_proto()
    for node, text in zip(graph.nodes, ["ocr.read(", "llm.chat(", "tts.speak("], strict=True):
        assert text in Path(node.source.file).read_text().splitlines()[node.source.line - 1]


def test_any_of_gives_a_parameter_several_ports_and_the_node_alternatives(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(a: Text, b: Text, c: Text, d: Text) -> Text:\n    return llm.both(any_of(a, b), any_of(c, d))\n"
    ).to_proto()
    (node,) = graph.nodes
    assert [(port.name, port.parameter) for port in node.inputs] == [
        ("one#1", "one"),
        ("one#2", "one"),
        ("two#1", "two"),
        ("two#2", "two"),
    ]
    assert [list(each.ports) for each in node.trigger] == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert not node.options.deterministic, "which one comes first is a matter of timing (rule 8)"


def test_a_role_used_twice_gives_two_nodes(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(a: Text) -> tuple[Stream[Text], Stream[Text]]:\n    return llm.chat(a), llm.chat(a)\n"
    ).to_proto()
    assert [node.name for node in graph.nodes] == ["llm.chat", "llm.chat#2"]
    assert [port.name for port in graph.results] == ["result0", "result1"]


def test_several_outputs_are_used_by_name(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(a: Text) -> Answer:\n"
        "    words = llm.think(a)\n    return Answer(words.text, tts.speak(words.text))\n"
    ).to_proto()
    assert [port.name for port in graph.nodes[0].outputs] == ["text", "codes"]
    assert wires(graph)[1:] == [
        "llm.think.text -> tts.speak.text",
        "llm.think.text -> text",
        "tts.speak.result -> speech",
    ]
    assert not graph.nodes[0].options.deterministic
    assert graph.nodes[0].options.max_attempts == 2


def test_a_constant_may_stand_for_a_plain_input(the_flow: Make) -> None:
    graph = the_flow("@flow\ndef f(a: Text) -> Stream[Text]:\n    return llm.chat(a, 'be short')\n").to_proto()
    assert dict(graph.nodes[0].parameters) == {"context": value_pb2.Value(text="be short")}
    assert [port.name for port in graph.nodes[0].inputs] == ["question"]


def test_a_role_may_go_by_another_name_in_the_cluster(the_flow: Make) -> None:
    graph = the_flow(
        "large = use(Llm, 'llm-large')\n@flow\ndef f(a: Text) -> Stream[Text]:\n    return large.chat(a)\n"
    ).to_proto()
    assert (graph.nodes[0].role, graph.nodes[0].name) == ("llm-large", "llm-large.chat")


def test_a_flow_called_inside_another_is_recorded_there(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef inner(q: Text) -> Stream[Text]:\n    return llm.chat(q)\n"
        "@flow\ndef outer(q: Text) -> Stream[Audio]:\n    return tts.speak(inner(q))\n"
    ).to_proto()
    assert [node.name for node in graph.nodes] == ["inner.llm.chat", "tts.speak"]


def test_a_missing_optional_input_may_make_an_optional_result(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(image: Image | None) -> Text | None:\n    return ocr.read(given(image))\n"
    ).to_proto()
    assert graph.results[0].type.optional


def test_any_of_one_certain_alternative_makes_the_result_certain(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(image: Image | None, text: Text) -> Stream[Text]:\n"
        "    return llm.chat(any_of(ocr.read(given(image)), text))\n"
    ).to_proto()
    assert not graph.results[0].type.optional


def test_the_version_follows_the_content_and_nothing_else(the_flow: Make, tmp_path: Path) -> None:
    version = the_flow(SPEAK).to_proto().version

    def of(name: str, body: str) -> bytes:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "other.py").write_text((tmp_path / "user_flow.py").read_text().replace(SPEAK, body))
        return load_flows(str(folder / "other.py"))[0].to_proto().version

    assert len(version) == 32
    assert of("moved", "\n\n" + SPEAK) == version
    assert of("documented", SPEAK.replace("Answers aloud.", "Speaks.")) == version
    assert of("changed", SPEAK.replace("32", "33")) != version
    assert of("renamed", SPEAK.replace("speak_about", "speak")) != version


def test_compiling_twice_gives_the_same_graph(the_flow: Make) -> None:
    flow = the_flow(SPEAK)
    assert MessageToDict(flow.to_proto()) == MessageToDict(flow.to_proto())


def test_a_flow_of_a_file_is_found_by_name(written: Callable[[str], Path]) -> None:
    path = written(SPEAK + "@flow(name='other')\ndef g(q: Text) -> Stream[Text]:\n    return llm.chat(q)\n")
    assert [flow.name for flow in load_flows(str(path))] == ["speak_about", "other"]
    assert [flow.name for flow in load_flows(f"{path}:other")] == ["other"]
    with pytest.raises(UnknownFlow, match="has no flow `othr`") as caught:
        load_flows(f"{path}:othr")
    assert "did you mean `other`?" in caught.value.cure


def test_what_is_no_flow_file_is_said_to_be_so(written: Callable[[str], Path]) -> None:
    with pytest.raises(InvalidArgument, match=r"no file nowhere\.py"):
        load_flows("nowhere.py")
    with pytest.raises(InvalidArgument, match="no module `nowhere_at_all`"):
        load_flows("nowhere_at_all")
    with pytest.raises(BadFlow, match="defines no flow"):
        load_flows(str(written("")))


EXAMPLE = Path(__file__).parents[3] / "examples" / "speak" / "flow.py"


def test_the_example_compiles_with_the_base_install_alone() -> None:
    heavy = {"torch", "transformers", "onnxruntime", "rapidocr_onnxruntime", "safetensors", "hibari_tts"}
    script = f"""
import sys
from omniflow.flow import load_flows
load_flows({str(EXAMPLE)!r})[0].to_proto()
print({heavy!r} & set(sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_the_example_compiles() -> None:
    (flow,) = load_flows(str(EXAMPLE))
    graph = flow.to_proto()
    assert [node.name for node in graph.nodes] == ["ocr.read", "llm.chat", "tts.speak"]
    assert [port.name for port in graph.results] == ["text", "speech"]
