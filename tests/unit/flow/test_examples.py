"""The example flows: each fits a page, compiles, and its roles do what their signatures say."""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omniflow import Audio, Image, Tensor
from omniflow.flow import load_flows
from omniflow.roles import RoleContext
from omniflow.roles.memory import run_method
from omniflow_core import Hub

EXAMPLES = Path(__file__).parents[3] / "examples"
FLOWS = {
    "omni/omni_flow.py": ["omni"],
    "agent/agent_flow.py": ["compose"],
    "painting/painting_flow.py": ["paint"],
    "pdf/pdf_flow.py": ["read_pdf", "read_pages"],
}
# Of roles that come with Omni-Flow.
BUILT_IN = {
    "shared_prefix/shared_flow.py": ["ask_first", "ask_second"],
    "prefill_decode/apart_flow.py": ["apart", "whole"],
}
PICTURE = Image.from_array(np.zeros((4, 6), np.uint8))
SOUND = Audio.from_array(np.zeros(800, np.float32), sample_rate=8_000)


@pytest.fixture(autouse=True)
def importable() -> Iterator[None]:
    """The examples' folders, as a worker has them."""
    folders = [str(EXAMPLES / name.split("/")[0]) for name in FLOWS]
    sys.path[:0] = folders
    yield
    for folder in folders:
        sys.path.remove(folder)


def run(module: str, role: str, method: str, **arguments: Any) -> Any:
    """The activation of one method of an example's role."""
    loaded = getattr(importlib.import_module(module), role)()
    loaded.load(RoleContext())
    made = run_method(loaded, method, **arguments)
    assert made.error is None, made.error
    return made


@pytest.mark.parametrize("file", FLOWS | BUILT_IN)
def test_an_example_is_short_and_compiles(file: str) -> None:
    path = EXAMPLES / file
    assert len(path.read_text().splitlines()) < 40
    flows = load_flows(str(path))
    assert [flow.name for flow in flows] == (FLOWS | BUILT_IN)[file]
    assert [problem.render() for flow in flows for problem in flow.problems()] == []


@pytest.mark.parametrize("file", FLOWS | BUILT_IN)
def test_a_scheduler_takes_the_flows_of_an_example(file: str) -> None:
    hub = Hub(cluster="test", term=1)
    try:
        for flow in load_flows(str(EXAMPLES / file)):
            _version, existed = hub.put_flow(flow.to_proto().SerializeToString())
            assert not existed
        assert len(hub.flows()) == len((FLOWS | BUILT_IN)[file])
    finally:
        hub.close(0.0)


@pytest.mark.parametrize("file", FLOWS)
def test_every_role_of_an_example_is_in_its_cluster_file(file: str) -> None:
    folder = (EXAMPLES / file).parent
    module = f"{folder.name}_roles"
    cluster = (folder / "cluster.yaml").read_text()
    tree = ast.parse((folder / f"{module}.py").read_text())
    roles = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Role" for base in node.bases)
    ]
    assert roles
    for role in roles:
        assert f'"{module}:{role}"' in cluster


def test_the_thinkers_two_streams_go_to_the_talker_as_one_argument() -> None:
    thought = run("omni_roles", "Thinker", "generate", text="hello there", seen=[Tensor.from_array([1.0])], heard=[])
    words, hidden = thought.results("text"), thought.results("hidden")
    assert words == ["hello", "there", "1 images", "0 sounds"]
    roles = importlib.import_module("omni_roles")
    codes = run("omni_roles", "Talker", "speak", words=roles.Words(words, hidden)).results()
    assert [code.array().tolist() for code in codes] == [[5, 5], [5, 5], [8, 8], [8, 8]]
    assert [sound.seconds for sound in run("omni_roles", "Vocoder", "decode", codes=codes).results()] == [
        0.05,
        0.05,
        0.08,
        0.08,
    ]
    assert run("omni_roles", "Vision", "encode", image=PICTURE).results()[0].array().tolist() == [6.0, 4.0]
    assert run("omni_roles", "Hearing", "encode", sound=SOUND).results()[0].array().tolist() == pytest.approx([0.1])


def test_the_agents_planner_chooses_and_its_makers_say_when_all_is_made() -> None:
    plan = run("agent_roles", "Planner", "next", todo="ia")
    assert (plan.results("kind"), plan.results("todo")) == (["image"], ["a"])
    assert run("agent_roles", "Planner", "begin", request="An image, text and audio").results() != []
    for role, method in (("Writer", "write"), ("Painter", "draw"), ("Speaker", "say")):
        assert run("agent_roles", role, method, todo="a").results("done") == [False]
        last = run("agent_roles", role, method, todo="")
        assert last.results("done") == [True]
        assert len(last.results("part")) == 1


def test_the_denoiser_counts_its_steps() -> None:
    (canvas,) = run("painting_roles", "Denoiser", "begin", caption="a boat", steps=2, seed=3).results()
    assert canvas.left == 2
    first = run("painting_roles", "Denoiser", "step", canvas=canvas, caption="a boat")
    assert first.results("done") == [False]
    second = run("painting_roles", "Denoiser", "step", canvas=first.results("canvas")[0], caption="a boat")
    assert second.results("done") == [True]
    (image,) = run("painting_roles", "Decoder", "decode", canvas=second.results("canvas")[0]).results()
    assert (image.width, image.height) == (16, 16)
    assert run("painting_roles", "Llm", "think", prompt="red boat").results() == [
        "a picture of red",
        "a picture of boat",
    ]


def test_the_splitter_yields_every_page() -> None:
    roles = importlib.import_module("pdf_roles")
    scan = roles.Scan("letter", [PICTURE, PICTURE])
    assert len(run("pdf_roles", "Splitter", "pages", scan=scan).results()) == 2
    assert run("pdf_roles", "Ocr", "read", page=PICTURE).results() == ["6x4"]
    assert run("pdf_roles", "Llm", "answer", question="Q?", pages=["a", "b"]).results() == ["Q? 2 pages: a, b"]
