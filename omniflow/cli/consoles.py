"""Where text goes: results to standard output, progress to standard error, so that pipes get results alone."""

import os
from contextlib import suppress
from functools import cache

from rich.console import Console
from rich.table import Table


class _Remarks(Console):
    """Falls silent when its reader is gone, where rich would end the program."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


_UNCUT = 10_000
"""Columns where nobody looks at a screen: files and pipes get whole lines, however long."""
_PLAIN = 100
"""Columns of what would fill any width, there."""


@cache
def out() -> Console:
    """Results."""
    return _uncut(Console(highlight=False))


@cache
def err() -> Console:
    """Progress and remarks."""
    return _uncut(_Remarks(stderr=True, highlight=False))


def columns(console: Console) -> int:
    """How wide a picture may be."""
    return _PLAIN if console.width == _UNCUT else console.width


def _uncut(console: Console) -> Console:
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = _UNCUT
    return console


def plain_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without frames, easy to read and to cut."""
    from rich.box import SIMPLE_HEAD

    table = Table(box=SIMPLE_HEAD, padding=(0, 1))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


class ConsoleObserver:
    """Tells people how a start or a stop gets on."""

    def progress(self, text: str) -> None:
        """One step a line. Where nobody can read it any more (a closed pipe or terminal), start and stop go on."""
        with suppress(OSError, ValueError):
            err().print(text, markup=False, soft_wrap=True)
