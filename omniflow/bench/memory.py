"""What processes of this machine have in memory, and how much of it is theirs alone (Linux)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in memory. `share` (the kernel's proportional set size): what a process has alone, and of what it shares
    with others its part; over all processes it adds up to what is used. `own`: what it has changed, so shares with
    nobody. Source: proc_pid_smaps(5)."""

    resident: int
    share: int
    own: int


def memory_of(pid: int) -> Memory:
    """The whole process. Raises `OSError` when there is none, or it is another user's."""
    return _add(Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())


def mapped_file(pid: int, name: str) -> Memory:
    """What of the files whose path has `name` in it a process has mapped. Raises as `memory_of` does."""
    found: list[str] = []
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):  # a mapping begins
            inside = name in line
        elif inside:
            found.append(line)
    return _add(found)


def _add(lines: Iterable[str]) -> Memory:
    sums = dict.fromkeys(("Rss:", "Pss:", "Private_Dirty:"), 0)
    for line in lines:
        kind, *rest = line.split()
        if kind in sums:
            sums[kind] += int(rest[0]) * 1024
    return Memory(*sums.values())
