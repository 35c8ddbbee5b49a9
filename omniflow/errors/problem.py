"""One mistake in a flow, shown the way compilers show one: what, the line itself, how to mend it."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """Where the user wrote it. `line` counts from 1; 0 when it isn't known."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.line}" + (f" in {self.function}" if self.function else "")

    @property
    def text(self) -> str:
        """The line itself; empty when the file cannot be read."""
        return linecache.getline(self.file, self.line).rstrip() if self.line else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """`code` is stable (e.g. "unknown-method"); `message` says what is wrong and why; `cure` how to mend it."""

    code: str
    message: str
    cure: str
    source: Source | None = None
    node: str = ""

    def render(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.source is not None:
            lines.append(f"  --> {self.source}")
            if text := self.source.text:
                number = str(self.source.line)
                margin = " " * len(number)
                lines += [f"{margin} |", f"{number} | {text}", f"{margin} |"]
        lines.append(f"   = cure: {self.cure}")
        return "\n".join(lines)


def _short(file: str) -> str:
    """Relative to the current folder when it lies below it."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return file if relative.startswith("..") else str(Path(relative))
