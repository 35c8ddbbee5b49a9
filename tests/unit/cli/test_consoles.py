"""Where nobody looks at a screen, lines are whole."""

import os
import subprocess
import sys

LONG = "x" * 150
PROGRAM = f"""
from omniflow.cli.consoles import columns, out, plain_table
table = plain_table("name", "log")
table.add_row("first", {LONG!r})
out().print(table)
out().print("columns", columns(out()))
"""


def _printed(**environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**inherited, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_table_in_a_pipe_is_not_cut_at_80_columns() -> None:
    printed = _printed()
    assert any(line.split() == ["first", LONG] for line in printed.splitlines())
    assert max(map(len, printed.splitlines())) < 200, "and is no wider than it has to be"
    assert "columns 100" in printed


def test_a_width_that_was_asked_for_is_kept() -> None:
    assert "columns 60" in _printed(COLUMNS="60")
