"""Who feeds whom, past the control nodes between, and with which keys."""

from omniflow.trace.paths import Path, paths_of
from omniflow.v1 import flow_pb2
from tests.unit.trace.examples import example_flow


def between(flow: flow_pb2.Flow, source: str, target: str) -> list[Path]:
    names = [node.name for node in flow.nodes]
    return [path for path in paths_of(flow) if (path.source, path.target) == (names.index(source), names.index(target))]


def test_what_an_each_hands_out_goes_to_every_key_and_what_collect_joins_comes_from_each() -> None:
    flow = example_flow("pdf:read_pdf")
    (out,) = between(flow, "splitter.pages", "ocr.read")
    assert out.joins((), (0,))
    assert out.joins((), (7,))
    (back,) = between(flow, "ocr.read", "llm.answer")
    assert back.joins((7,), ())
    # The count that an each tells its collect is no frame.
    assert not between(flow, "splitter.pages", "llm.answer")


def test_a_round_of_a_loop_feeds_the_next_one_and_no_other() -> None:
    flow = example_flow("agent:compose")
    first = between(flow, "planner.begin", "planner.next")
    assert any(path.joins((), (0,)) for path in first)
    assert not any(path.joins((), (1,)) for path in first)
    to_branch = between(flow, "planner.next", "writer.write")
    assert any(path.joins((3,), (3,)) for path in to_branch)
    assert not any(path.joins((3,), (4,)) for path in to_branch)
    on = between(flow, "writer.write", "planner.next")
    assert any(path.joins((3,), (4,)) for path in on)
    assert not any(path.joins((3,), (3,)) for path in on)


def test_streams_go_from_role_to_role_directly() -> None:
    flow = example_flow("omni:omni")
    assert between(flow, "thinker.generate", "talker.speak")
    assert between(flow, "talker.speak", "vocoder.decode")
    assert not between(flow, "thinker.generate", "vocoder.decode")


def test_results_have_a_path_of_their_own() -> None:
    flow = example_flow("omni:omni")
    made = {
        (flow.nodes[path.source].name, flow.results[path.input].name) for path in paths_of(flow) if path.target is None
    }
    assert made == {("thinker.generate", "text"), ("vocoder.decode", "speech")}


def test_every_path_has_a_step_for_each_index_of_its_readers_key() -> None:
    for name in ("pdf:read_pdf", "pdf:read_pages", "agent:compose", "omni:omni", "painting:paint"):
        flow = example_flow(name)
        for path in paths_of(flow):
            depth, scope = 0, flow.nodes[path.target].scope if path.target is not None else 0
            while scope:
                depth, scope = depth + 1, flow.scopes[scope - 1].parent
            assert len(path.steps) == depth, (name, path)
