"""What `bench` shows: a bar while it runs, a table at its end."""

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from omniflow.bench import Sample
from omniflow.bench.statistics import Figures
from omniflow.cli.consoles import err, plain_table

_TIMES = {
    "e2el_ms": "latency, ms",
    "ttft_ms": "to first frame, ms",
    "jct_ms": "JCT at the scheduler, ms",
    "audio_ttfp_ms": "to first sound, ms",
    "audio_rtf": "real-time factor",
    "send_delay_ms": "sent late by, ms",
}
_SHAPES = ("mean", "median", "p95", "p99")


class LoadProgress:
    """A bar over jobs, or over time where only a duration is given."""

    def __init__(self, jobs: int | None, duration_s: float | None) -> None:
        self._jobs, self._duration_s = jobs, duration_s
        self._ended = self._failed = 0
        self._start = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=err()
        )
        self._task = self._bar.add_task("warming up", total=jobs or duration_s)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self) -> None:
        """The warm-up is over."""
        self._start = time.monotonic()

    def take(self, sample: Sample) -> None:
        """One job has ended."""
        self._ended += 1
        self._failed += bool(sample.failure)
        elapsed = time.monotonic() - self._start
        done = self._ended if self._jobs is not None else min(elapsed, self._duration_s or elapsed)
        failed = f", {self._failed} failed" if self._failed else ""
        rate = self._ended / elapsed if elapsed > 0 else 0.0
        self._bar.update(self._task, completed=done, description=f"{self._ended} jobs, {rate:.1f}/s{failed}")


def figures_table(figures: Figures) -> Table:
    """Distributions as rows; counts and costs in the title and below."""
    table = plain_table("", *_SHAPES, right=_SHAPES)
    table.title_justify = table.caption_justify = "left"
    table.title = (
        f"{figures['completed']} jobs in {_number(figures['duration'])} s: "
        f"{_number(figures['request_throughput'])} jobs/s, {figures['failed']} failed"
    )
    for name, words in _TIMES.items():
        if figures.get(f"mean_{name}") is not None:
            table.add_row(words, *(_number(figures[f"{shape}_{name}"]) for shape in _SHAPES))
    table.caption = "\n".join(_remarks(figures))
    return table


def _remarks(figures: Figures) -> list[str]:
    kinds = {
        name.removeprefix("failed_").upper(): times for name, times in figures.items() if name.startswith("failed_")
    }
    costs = {
        name.removeprefix("cpu_ms_per_job_"): value
        for name, value in figures.items()
        if name.startswith("cpu_ms_per_job_") and value is not None
    }
    remarks = [f"failures: {', '.join(f'{kind} {times}' for kind, times in kinds.items())}"] if kinds else []
    if costs:
        remarks.append(f"CPU ms a job: {', '.join(f'{who} {_number(value)}' for who, value in costs.items())}")
    return remarks


def _number(value: float | int | str | None) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
