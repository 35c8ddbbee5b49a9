"""Drawings show every part of the graph, nothing over anything else."""

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omniflow.cli.flow import app
from omniflow.flow import Flow
from omniflow.flow.draw import mermaid, svg
from omniflow.flow.draw.layout import lay_out
from omniflow.flow.draw.nested import scene_of

Make = Callable[[str], Flow[..., Any]]

BUSY = """\
class R(NamedTuple):
    text: Stream[Text]
    speech: Stream[Audio]
    reply: Stream[Text]

@flow
def busy(image: Image | None, a: Text, b: Text, voice: Audio) -> R:
    seen = ocr.read(given(image))
    words = llm.think(any_of(a, b))
    short = llm.summary(a, words=3)
    return R(words.text, tts.speak(words.text, voice), llm.chat(short, seen, max_tokens=7))
"""


def test_boxes_do_not_overlap_and_wires_run_from_left_to_right(the_flow: Make) -> None:
    layout = lay_out(scene_of(the_flow(BUSY).to_proto()))
    for first, second in itertools.combinations(layout.items, 2):
        apart = (
            first.x + first.width <= second.x
            or second.x + second.width <= first.x
            or first.y + first.height <= second.y
            or second.y + second.height <= first.y
        )
        assert apart, (first.box, second.box)
    for route in layout.routes:
        for link in route:
            assert link.source.x + link.source.width < link.target.x
    for item in layout.items:
        assert item.x >= 0
        assert item.x + item.width <= layout.width + 1e-6
        assert item.y >= 0
        assert item.y + item.height <= layout.height + 1e-6


def test_a_chain_is_drawn_level(the_flow: Make) -> None:
    graph = the_flow("@flow\ndef f(q: Text) -> Stream[Audio]:\n    return tts.speak(llm.chat(q))\n").to_proto()
    layout = lay_out(scene_of(graph))
    for route in layout.routes:
        for link in route:
            assert link.start == pytest.approx(link.end, abs=1.0)


def test_the_svg_is_well_formed_and_names_every_part(the_flow: Make) -> None:
    graph = the_flow(BUSY).to_proto()
    drawing = svg(graph)
    root = ET.fromstring(drawing)
    text = " ".join("".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text"))
    for name in ["image", "voice", "speech", "or text", "max_tokens = 7", *(node.name for node in graph.nodes)]:
        assert name in text
    wires = [each for each in root.iter("{http://www.w3.org/2000/svg}path") if "wire" in (each.get("class") or "")]
    assert len(wires) == len(graph.edges) + 2, "and two in the legend"


def test_names_are_escaped_in_drawings(the_flow: Make) -> None:
    graph = the_flow('@flow\ndef f(q: Text) -> Stream[Text]:\n    return llm.chat(q, "a < b & \\"c\\"")\n').to_proto()
    ET.fromstring(svg(graph))
    assert "a #lt; b" in mermaid(graph)


def test_mermaid_has_a_line_for_every_part(the_flow: Make) -> None:
    graph = the_flow(BUSY).to_proto()
    lines = mermaid(graph).splitlines()
    assert lines[0] == "flowchart LR"
    assert sum("-->" in line or "==>" in line or "-.->" in line for line in lines) == len(graph.edges)
    assert '    input0(["image"])' in lines
    assert any("==>" in line and "Stream[Text]" in line for line in lines)


runner = CliRunner()


def test_check_says_ok_or_shows_the_line_and_fails(written: Callable[[str], Path]) -> None:
    good = runner.invoke(app, ["check", str(written(BUSY))])
    assert good.exit_code == 0
    assert "busy: ok, 5 nodes, roles ocr, llm, tts" in good.output


def test_check_fails_on_a_mistake_with_its_line(written: Callable[[str], Path]) -> None:
    path = written("@flow\ndef f(image: Image) -> Text:\n    return ocr.reed(image)\n")
    bad = runner.invoke(app, ["check", str(path)])
    assert bad.exit_code == 2
    assert "return ocr.reed(image)" in bad.output
    assert "did you mean `read`?" in bad.output
    as_json = runner.invoke(app, ["check", str(path), "--json"])
    assert '"code": "unknown-method"' in as_json.output


def test_draw_writes_what_the_ending_says(written: Callable[[str], Path], tmp_path: Path) -> None:
    path = written(BUSY)
    assert runner.invoke(app, ["draw", str(path)]).output.startswith("flowchart LR")
    out = tmp_path / "busy.svg"
    assert runner.invoke(app, ["draw", f"{path}:busy", "-o", str(out)]).exit_code == 0
    assert ET.fromstring(out.read_text()).tag.endswith("svg")


def test_draw_asks_which_of_several_and_names_a_missing_file(written: Callable[[str], Path]) -> None:
    path = written(BUSY + "@flow\ndef g(q: Text) -> Stream[Text]:\n    return llm.chat(q)\n")
    several = runner.invoke(app, ["draw", str(path)])
    assert several.exit_code == 2
    assert "busy, g" in several.output
    missing = runner.invoke(app, ["draw", "nowhere.py"])
    assert missing.exit_code == 2
    assert "there is no file nowhere.py" in missing.output
    unwritable = runner.invoke(app, ["draw", f"{path}:g", "-o", str(path / "below.svg")])
    assert unwritable.exit_code == 2
    assert "cannot write" in unwritable.output


NESTED = """\
@flow
def nested(pages: Stream[Image], q: Text) -> Text:
    def better(text: Text) -> Draft:
        plan = planner.plan(text)
        return route(plan.kind, short=lambda: planner.edit(plan.note), long=lambda: planner.edit(text))
    texts = collect(llm.both(q, ocr.read(page)) for page in each(pages))
    return loop(better, start=splitter.join(texts), until="done", max_rounds=5)
"""


def test_an_each_and_a_loop_are_boxes_around_what_runs_in_them(the_flow: Make) -> None:
    scene = scene_of(the_flow(NESTED).to_proto())
    fan, cycle = [box for box in scene.boxes if box.kind == "group"]
    assert fan.scene is not None
    assert cycle.scene is not None
    assert [box.title for box in fan.scene.boxes] == ["item", "ocr.read", "q", "llm.both", "collect"]
    assert [(row.name, str(row.type)) for row in fan.outputs] == [("collect", "list[Text]")]
    assert cycle.title == "loop `better`, at most 5 rounds"
    assert {box.title for box in cycle.scene.boxes} >= {"text", "route", "any_of", "next text", "until"}
    assert [(exit_.title, entry.title) for exit_, entry in cycle.scene.turns] == [("next text", "text")]
    assert [row.name for row in cycle.outputs] == ["last text"]


def test_what_a_group_holds_lies_inside_of_it(the_flow: Make) -> None:
    layout = lay_out(scene_of(the_flow(NESTED).to_proto()))
    groups = [item for item in layout.items if item.inner is not None]
    assert len(groups) == 2
    for group in groups:
        assert group.inner is not None
        assert group.inner.width < group.width
        assert group.inner.height < group.height
        assert group.box is not None
        for row in range(len(group.box.inputs)):
            assert 0 < group.left(row) < group.height
        for row in range(len(group.box.outputs)):
            assert 0 < group.right(row) < group.height


def test_scopes_routes_and_loops_are_drawn(the_flow: Make) -> None:
    graph = the_flow(NESTED).to_proto()
    drawing = svg(graph)
    ET.fromstring(drawing)
    for part in ('class="ground each"', 'class="ground loop"', 'class="wire turn"', "when taken", "at most 5 rounds"):
        assert part in drawing
    text = mermaid(graph)
    assert text.count("subgraph") == text.count("    end\n") == 2
    assert '|"if short"|' in text
