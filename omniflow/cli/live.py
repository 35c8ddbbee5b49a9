"""Live progress: a row a node while the job runs. Silent where standard error is no terminal."""

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from omniflow.cli.consoles import err
from omniflow.report import describe_features, describe_seconds
from omniflow.v1 import job_pb2

_STATES = job_pb2.NodeProgress
_WORDS = {
    _STATES.QUEUED: "queued",
    _STATES.STARTED: "running",
    _STATES.FIRST_FRAME: "streaming",
    _STATES.DONE: "done",
    _STATES.FAILED: "failed",
    _STATES.LOST: "lost",
    _STATES.STOPPED: "stopped",
}
_OVER = (_STATES.DONE, _STATES.FAILED, _STATES.LOST, _STATES.STOPPED)


@dataclass(slots=True)
class _Row:
    worker: str = ""
    state: job_pb2.NodeProgress.State.ValueType = _STATES.STATE_UNSPECIFIED
    since: float = field(default_factory=time.monotonic)
    began: float | None = None
    took: float | None = None
    work: str = ""


class LiveProgress:
    """Shows `NodeProgress` events. Use as a context manager."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._rows: dict[tuple[str, tuple[int, ...]], _Row] = {}
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._render, console=err(), refresh_per_second=8, transient=True)
        self._shown = err().is_terminal

    def __enter__(self) -> Self:
        if self._shown:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._live.stop()

    def take(self, step: job_pb2.NodeProgress) -> None:
        """One event."""
        row = self._rows.setdefault((step.node, tuple(step.key)), _Row())
        row.worker = step.worker or row.worker
        if step.state == _STATES.STOPPED and row.state == _STATES.STATE_UNSPECIFIED:
            return  # its inputs were closed: it never ran
        row.state = step.state
        if step.state == _STATES.STARTED:
            row.began, row.took = time.monotonic(), None
        if step.state in _OVER and row.began is not None:
            row.took = time.monotonic() - row.began
        row.work = describe_features(step.features) or row.work

    def _render(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row(self._spinner, f"[bold]{self._title}[/bold]", "", "", "")
        for (node, key), row in self._rows.items():
            name = f"{node}[{','.join(map(str, key))}]" if key else node
            table.add_row("", name, row.worker, f"{_WORDS.get(row.state, '')} {_elapsed(row)}".strip(), row.work)
        return table


def _elapsed(row: _Row) -> str:
    if row.took is not None:
        return describe_seconds(row.took)
    return describe_seconds(time.monotonic() - row.began) if row.began is not None else ""
