"""What `submit` shows of its results."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from omniflow.cli import consoles
from omniflow.cli.outputs import LONGEST_SHOWN_TEXT
from omniflow.cli.submission import Finished
from omniflow.cli.submit import _show


def shown(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, *, terminal: bool) -> str:
    screen = StringIO()
    console = Console(file=screen, force_terminal=terminal, color_system=None, width=80)
    monkeypatch.setattr(consoles, "out", lambda: console)
    _show(Finished("1", {"answer": [text]}), folder, timeline=False, as_json=False)
    assert (folder / "answer.txt").read_text() == text
    return screen.getvalue()


def test_a_short_text_is_shown_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(tmp_path, monkeypatch, "Track [7].", terminal=True)
    assert said.splitlines() == [f"answer: {tmp_path / 'answer.txt'}", "Track [7]."]


def test_a_long_text_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(tmp_path, monkeypatch, "x" * (LONGEST_SHOWN_TEXT + 1), terminal=True)
    assert said.splitlines() == [f"answer: {tmp_path / 'answer.txt'}"]


def test_a_pipe_gets_the_list_of_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(tmp_path, monkeypatch, "Track 7.", terminal=False)
    assert said.splitlines() == [f"answer: {tmp_path / 'answer.txt'}"]
