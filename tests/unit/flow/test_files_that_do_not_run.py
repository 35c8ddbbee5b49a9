"""A flow's file that is no Python, or does not run: the line, and a cure that fits the mistake."""

from pathlib import Path

import pytest

from omniflow.errors import BadFlow, Problem
from omniflow.flow import load_flows


def problem_of(folder: Path, text: str) -> Problem:
    file = folder / "my_flow.py"
    file.write_text(text)
    with pytest.raises(BadFlow) as caught:
        load_flows(str(file))
    (problem,) = caught.value.problems
    return problem


def test_a_syntax_error_shows_its_line_and_speaks_of_syntax(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "x = 1\ny = (2,\nz = 3)]\n")
    assert problem.message.startswith("it is not Python: ")
    assert "syntax" in problem.cure
    assert "load()" not in problem.cure
    assert problem.source is not None
    assert problem.source.line == 3
    assert problem.source.text == "z = 3)]"


def test_a_wrong_indentation_speaks_of_indentation(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "def f():\nreturn 1\n")
    assert "indent" in problem.message
    assert "indent" in problem.cure


def test_a_missing_module_is_named_and_may_wait_for_load(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "import no_such_module_at_all\n")
    assert "`no_such_module_at_all`" in problem.cure
    assert "load()" in problem.cure
    assert problem.source is not None
    assert problem.source.line == 1


def test_whatever_else_it_raises_is_told_with_its_line(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "x = 1\nx / 0\n")
    assert problem.message == "running it raised ZeroDivisionError: division by zero"
    assert problem.source is not None
    assert problem.source.line == 2
