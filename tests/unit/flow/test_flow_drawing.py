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
from omniflow.flow.draw.scene import scene_of

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
