"""Fan-out, branches and loops become the nodes, scopes and gates that they read as."""

from collections.abc import Callable
from typing import Any

from omniflow.flow import Flow
from omniflow.types import ValueType
from omniflow.v1 import flow_pb2, value_pb2

Make = Callable[[str], Flow[..., Any]]


def wires(flow: flow_pb2.Flow, of: str) -> list[str]:
    """Edges into the node called `of`, or into results, as "each.item -> ocr.read.image"."""
    found = []
    for edge in flow.edges:
        start, end = getattr(edge, "from"), edge.to
        target = "results" if end.place == flow_pb2.End.RESULT else flow.nodes[end.node].name
        if target != of:
            continue
        left = (
            flow.inputs[start.port].name
            if start.place == flow_pb2.End.INPUT
            else f"{flow.nodes[start.node].name}.{flow.nodes[start.node].outputs[start.port].name}"
        )
        port = flow.results[end.port] if target == "results" else flow.nodes[end.node].inputs[end.port]
        found.append(f"{left} -> {port.name}")
    return found


def node(flow: flow_pb2.Flow, name: str) -> flow_pb2.Node:
    return next(each for each in flow.nodes if each.name == name)


def types(ports: Any) -> list[str]:
    return [f"{port.name}: {ValueType.from_proto(port.type)}" for port in ports]


def test_a_generator_over_each_is_a_scope_and_collect_closes_it(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(image: Image, q: Text) -> Text:\n"
        "    pages = collect(llm.both(q, ocr.read(page)) for page in each(splitter.pages(image)))\n"
        "    return splitter.join(pages)\n"
    ).to_proto()
    (scope,) = graph.scopes
    assert (scope.kind, scope.parent, graph.nodes[scope.node].name) == (flow_pb2.Scope.EACH, 0, "each")
    assert [(each.name, each.scope) for each in graph.nodes] == [
        ("splitter.pages", 0),
        ("each", 0),
        ("ocr.read", 1),
        ("llm.both", 1),
        ("collect", 0),
        ("splitter.join", 0),
    ]
    assert types(node(graph, "each").outputs) == ["item: Image", "count: Stream[bool]"]
    assert wires(graph, "collect") == ["llm.both.result -> value", "each.count -> count"]
    assert types(node(graph, "collect").outputs) == ["result: list[Text]"]
    assert node(graph, "each").each.scope == node(graph, "collect").collect.scope == 1


def test_without_collect_it_is_a_stream_in_order_or_in_order_of_arrival(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(pages: Stream[Image]) -> tuple[Stream[Text], Stream[Text]]:\n"
        "    texts = (ocr.read(page) for page in each(pages))\n"
        "    return texts, unordered(texts)\n"
    ).to_proto()
    assert [each.name for each in graph.nodes] == ["each", "ocr.read", "unordered", "ordered"]
    assert types(node(graph, "ordered").outputs) == ["result: Stream[Text]"]
    assert wires(graph, "results") == ["ordered.result -> result0", "unordered.result -> result1"]


def test_a_for_statement_says_the_same(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(pages: Stream[Image]) -> Text:\n"
        "    for page in each(pages):\n        text = ocr.read(page)\n"
        "    return splitter.join(collect(text))\n"
    ).to_proto()
    assert wires(graph, "collect") == ["ocr.read.result -> value", "each.count -> count"]


def test_several_values_per_item_give_a_list_of_each(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(pages: Stream[Image]) -> tuple[list[Text], list[Tensor]]:\n"
        "    texts, boxes = collect(splitter.boxes(page) for page in each(pages))\n    return texts, boxes\n"
    ).to_proto()
    assert types(graph.results) == ["result0: list[Text]", "result1: list[Tensor]"]
    assert wires(graph, "collect#2") == ["splitter.boxes.box -> value", "each.count -> count"]


def test_each_goes_over_several_streams_in_lockstep(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(a: Stream[Text], b: Stream[Text]) -> list[Text]:\n"
        "    return collect(llm.both(x, y) for x, y in each(a, b))\n"
    ).to_proto()
    assert wires(graph, "each") == ["a -> stream0", "b -> stream1"]
    assert wires(graph, "llm.both") == ["each.item0 -> one", "each.item1 -> two"]


def test_a_scope_in_a_scope_has_it_for_a_parent(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(pages: Stream[Image]) -> list[list[Text]]:\n"
        "    return collect(\n"
        "        collect(llm.summary(line, words=3) for line in each(splitter.lines(ocr.read(page))))\n"
        "        for page in each(pages)\n    )\n"
    ).to_proto()
    assert [(scope.parent, graph.nodes[scope.node].name) for scope in graph.scopes] == [(0, "each"), (1, "each#2")]
    assert [(each.name, each.scope) for each in graph.nodes] == [
        ("each", 0),
        ("ocr.read", 1),
        ("splitter.lines", 1),
        ("each#2", 1),
        ("llm.summary", 2),
        ("collect", 1),
        ("collect#2", 0),
    ]


def test_streams_are_zipped_and_merged(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(a: Stream[Text], b: Stream[Text]) -> tuple[Stream[Text], Stream[Text], Stream[Text]]:\n"
        "    return *zip_streams(a, b), merge(a, b)\n"
    ).to_proto()
    assert [each.WhichOneof("control") for each in graph.nodes] == ["zip", "merge"]
    assert wires(graph, "results") == [
        "zip_streams.stream0 -> result0",
        "zip_streams.stream1 -> result1",
        "merge.result -> result2",
    ]


ROUTED = """\
@flow
def f(q: Text) -> Text:
    plan = planner.plan(q)
    def long() -> Text:
        draft = llm.summary(plan.note, words=99)
        return llm.summary(draft, words=50)
    return route(plan.kind, short=lambda: llm.summary(q, words=3), long=long)
"""


def test_nodes_that_read_from_outside_of_their_branch_wait_for_the_choice(the_flow: Make) -> None:
    graph = the_flow(ROUTED).to_proto()
    assert list(node(graph, "route").route.branches) == ["short", "long"]
    assert node(graph, "route").route.exclusive
    short, first, second = (node(graph, name) for name in ("llm.summary", "llm.summary#2", "llm.summary#3"))
    assert [(port.name, port.gate) for port in short.inputs] == [("text", False), ("gate", True)]
    assert wires(graph, "llm.summary") == ["q -> text", "route.short -> gate"]
    assert wires(graph, first.name) == ["planner.plan.note -> text", "route.long -> gate"]
    assert [list(each.ports) for each in first.trigger] == [[0, 1]]
    assert [port.name for port in second.inputs] == ["text"], "it is closed with what feeds it"
    assert wires(graph, "any_of") == ["llm.summary.result -> short", "llm.summary#3.result -> long"]
    assert wires(graph, "results") == ["any_of.result -> result"]


def test_a_value_that_a_branch_passes_on_unchanged_waits_for_the_choice_too(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> Text:\n    plan = planner.plan(q)\n"
        "    return route(plan.kind, short=lambda: q, long=lambda: llm.summary(q, words=3))\n"
    ).to_proto()
    assert wires(graph, "any_of") == ["q -> value", "route.short -> gate"]
    assert wires(graph, "any_of#2") == ["any_of.result -> short", "llm.summary.result -> long"]


def test_a_branch_that_makes_nothing_makes_the_result_optional(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text, image: Image) -> Stream[Text]:\n    plan = planner.plan(q)\n"
        "    seen = route(plan.kind, short=lambda: None, long=lambda: ocr.read(image))\n"
        "    return llm.chat(q, context=seen)\n"
    ).to_proto()
    assert not graph.results[0].type.optional, "context is optional, so the answer comes anyway"
    assert wires(graph, "llm.chat") == ["q -> question", "any_of.result -> context"]


def test_branches_of_choices_are_merged(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> list[Text] | None:\n    plan = planner.plan(q)\n"
        "    return collect(route(plan.tools, web=lambda: llm.summary(q, words=1), files=lambda: "
        "llm.summary(plan.note, words=2)))\n"
    ).to_proto()
    assert not node(graph, "route").route.exclusive
    assert ValueType.from_proto(node(graph, "route").inputs[0].type) == ValueType.from_proto(
        value_pb2.Type(kind=value_pb2.KIND_LIST, item=value_pb2.Type(kind=value_pb2.KIND_TEXT))
    )
    assert wires(graph, "merge") == ["llm.summary.result -> value0", "llm.summary#2.result -> value1"]
    assert wires(graph, "collect") == ["merge.result -> stream"]


def test_a_route_inside_an_each_is_in_its_scope(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(pages: Stream[Image], q: Text) -> list[Text]:\n"
        "    def one(page: Image) -> Text:\n        plan = planner.plan(ocr.read(page))\n"
        "        return route(plan.kind, short=lambda: llm.summary(q, words=3), long=lambda: plan.note)\n"
        "    return collect(one(page) for page in each(pages))\n"
    ).to_proto()
    assert {each.name: each.scope for each in graph.nodes if each.name not in ("each", "collect")} == {
        "ocr.read": 1,
        "planner.plan": 1,
        "route": 1,
        "llm.summary": 1,
        "any_of": 1,
        "any_of#2": 1,
    }


def test_a_loop_carries_what_its_body_reads_and_nothing_else(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> Text:\n"
        "    def body(draft: Draft) -> Draft:\n        return planner.edit(draft.text)\n"
        "    return loop(body, start=planner.begin(q), until='done', max_rounds=7).text\n"
    ).to_proto()
    loop = node(graph, "loop")
    assert (loop.loop.scope, loop.loop.carried, loop.loop.emitted, loop.loop.max_rounds) == (1, 1, 0, 7)
    assert wires(graph, "loop") == [
        "planner.begin.text -> start.text",
        "planner.edit.text -> next.text",
        "planner.edit.done -> until",
    ]
    assert types(loop.outputs) == ["state.text: Text", "final.text: Text"]
    assert wires(graph, "planner.edit") == ["loop.state.text -> text"]
    assert graph.scopes[0].kind == flow_pb2.Scope.LOOP
    assert node(graph, "planner.edit").scope == 1


def test_the_bodys_parameters_name_what_a_loop_carries(the_flow: Make) -> None:
    graph = the_flow(
        "class Both(NamedTuple):\n    text: Text\n    note: Text\n    done: bool\n"
        "@flow\ndef f(q: Text, note: Text) -> tuple[Text, Text]:\n"
        "    def body(text: Text, note: Text) -> Both:\n        made = planner.edit(llm.both(text, note))\n"
        "        return Both(made.text, note, made.done)\n"
        "    return loop(body, start=(q, note), until='done', max_rounds=7)\n"
    ).to_proto()
    assert wires(graph, "loop") == [
        "q -> start.text",
        "note -> start.note",
        "planner.edit.text -> next.text",
        "loop.state.note -> next.note",
        "planner.edit.done -> until",
    ]
    assert wires(graph, "results") == ["loop.final.text -> result0", "loop.final.note -> result1"]


def test_a_loop_emits_streams_and_what_is_optional_is_left_out_of_them(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> tuple[Stream[Text], Stream[Image]]:\n"
        "    return loop(planner.edit, start=q, until='done', emit=('text', 'page'), max_rounds=7)\n"
    ).to_proto()
    assert node(graph, "loop").loop.emitted == 2
    assert wires(graph, "results") == ["loop.emit.text -> result0", "loop.emit.page -> result1"]


def test_a_choice_inside_a_loop_leads_to_the_next_state(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> Text:\n"
        "    def body(text: Text) -> Draft:\n        plan = planner.plan(text)\n"
        "        return route(plan.kind, short=lambda: planner.edit(text), long=lambda: planner.edit(plan.note))\n"
        "    return loop(body, start=q, until='done', max_rounds=7)\n"
    ).to_proto()
    assert wires(graph, "loop") == ["q -> start.text", "any_of.result -> next.text", "any_of#3.result -> until"]
    assert [each.name for each in graph.nodes if each.scope == 1] == [
        "planner.plan",
        "route",
        "planner.edit",
        "planner.edit#2",
        "any_of",
        "any_of#3",
    ]


def test_an_any_of_with_one_reader_is_alternatives_of_that_reader(the_flow: Make) -> None:
    one = the_flow("@flow\ndef f(a: Text, b: Text) -> Stream[Text]:\n    return llm.chat(any_of(a, b))\n").to_proto()
    assert [each.name for each in one.nodes] == ["llm.chat"]
    assert len(one.nodes[0].trigger) == 2


def test_an_any_of_with_several_readers_is_a_node(the_flow: Make) -> None:
    two = the_flow(
        "@flow\ndef f(a: Text, b: Text) -> tuple[Stream[Text], Text]:\n"
        "    c = any_of(a, b)\n    return llm.chat(c), c\n"
    ).to_proto()
    assert [each.name for each in two.nodes] == ["any_of", "llm.chat"]
    assert not node(two, "llm.chat").options.deterministic, "which one comes first is a matter of timing (rule 8)"


def test_what_comes_by_order_of_arrival_makes_its_reader_not_deterministic(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(a: Stream[Text], b: Stream[Text]) -> tuple[Text, Text]:\n"
        "    return splitter.join(collect(merge(a, b))), splitter.join(collect(a))\n"
    ).to_proto()
    assert not node(graph, "splitter.join").options.deterministic
    assert node(graph, "splitter.join#2").options.deterministic


def test_options_are_of_one_use(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> tuple[Stream[Text], Stream[Text]]:\n    note = llm.summary(q, words=3)\n"
        "    first = options(llm.chat, max_attempts=1, deadline_share=0.5, near=note)(note)\n"
        "    return first, llm.chat(q)\n"
    ).to_proto()
    chat, plain = node(graph, "llm.chat").options, node(graph, "llm.chat#2").options
    assert (chat.max_attempts, chat.deadline_share, list(chat.near)) == (1, 0.5, [0])
    assert (plain.max_attempts, plain.deadline_share, list(plain.near)) == (0, 0.0, [])


def test_a_parameter_of_the_flow_is_set_wherever_it_goes(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text, *, words: int = 5) -> tuple[Text, Text]:\n"
        "    return llm.summary(q, words=words), llm.summary(q, words=words)\n"
    ).to_proto()
    assert [port.name for port in graph.inputs] == ["q"]
    (parameter,) = graph.parameters
    assert (parameter.name, list(parameter.targets)) == ("words", ["llm.summary.words", "llm.summary#2.words"])
    assert parameter.default.integer == 5
    assert graph.nodes[1].parameters["words"].integer == 5


def test_a_named_tuple_is_one_port_per_field_for_flows_and_roles(the_flow: Make) -> None:
    graph = the_flow(
        "class Turn(NamedTuple):\n    text: Text\n    page: Image | None\n    done: Text\n"
        "@flow\ndef f(turn: Turn) -> Draft:\n"
        "    return planner.polish(Draft(turn.text, turn.page, planner.edit(turn.done).done))\n"
    ).to_proto()
    assert types(graph.inputs) == ["text: Text", "page: Image | None", "done: Text"]
    assert types(graph.results) == ["text: Text", "page: Image | None", "done: bool"]
    assert [(port.name, port.parameter) for port in node(graph, "planner.polish").inputs] == [
        ("draft.text", "draft.text"),
        ("draft.page", "draft.page"),
        ("draft.done", "draft.done"),
    ]


def test_a_nested_flow_is_recorded_in_place_under_its_name(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef read(pages: Stream[Image], *, words: int = 3) -> list[Text]:\n"
        "    return collect(llm.summary(ocr.read(page), words=words) for page in each(pages))\n"
        "@flow\ndef f(a: Stream[Image], b: Stream[Image], *, words: int = 9) -> Text:\n"
        "    return llm.both(splitter.join(read(a)), splitter.join(read(b, words=words)))\n"
    ).to_proto()
    names = [each.name for each in graph.nodes]
    assert names[:4] == ["read.each", "read.ocr.read", "read.llm.summary", "read.collect"]
    assert "read#2.llm.summary" in names
    assert node(graph, "read.llm.summary").parameters["words"].integer == 3
    assert list(graph.parameters[0].targets) == ["read#2.llm.summary.words"]


def test_what_is_in_vain_is_not_compiled_where_it_is_a_part_of_something_used(the_flow: Make) -> None:
    graph = the_flow(
        "@flow\ndef f(q: Text) -> Text:\n    plan = planner.plan(q)\n    return llm.both(plan.note, q)\n"
    ).to_proto()
    assert [port.name for port in graph.nodes[0].outputs] == ["kind", "tools", "note"]
    assert wires(graph, "llm.both") == ["planner.plan.note -> one", "q -> two"]
