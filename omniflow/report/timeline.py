"""The timeline: a bar an attempt, on one axis from the job's arrival to its end."""

from collections.abc import Sequence

from omniflow.report.spans import Span, end_of, spans_of
from omniflow.report.times import describe_us
from omniflow.v1 import job_pb2

WAITING, RUNNING, STREAMING = "░", "▒", "█"
_LEGEND = f"{WAITING} waits in a queue   {RUNNING} runs   {STREAMING} gives frames"


def report_timeline(report: job_pb2.Report, width: int = 100) -> str:
    """Plain text, at most `width` columns where the names leave room for bars of at least 20."""
    spans = spans_of(report)
    if not spans:
        return "no node ran"
    whole = end_of(report, spans)
    names = [f"{span.label} @ {span.worker}" for span in spans]
    margin = max(len(name) for name in names)
    columns = max(20, width - margin - 2)
    bars = [f"{name:<{margin}}  {_bar(span, whole, columns)}" for name, span in zip(names, spans, strict=True)]
    return "\n".join([*bars, f"{'':<{margin}}  {_axis(whole, columns)}", f"{'':<{margin}}  {_LEGEND}"])


def _bar(span: Span, whole: int, columns: int) -> str:
    marks = [round(mark * columns / whole) for mark in (span.queued, span.started, span.first_frame, span.ended)]
    queued, started, first_frame, ended = marks
    if ended == queued:  # shorter than a column, but it did happen
        queued = started = first_frame = min(queued, columns - 1)
        ended = queued + 1
    parts = " " * queued + WAITING * (started - queued) + RUNNING * (first_frame - started)
    # A node that gives one value gives it at its end: all its time was running.
    return (parts + STREAMING * (ended - first_frame)).rstrip()


def _axis(whole: int, columns: int) -> str:
    """Ticks at quarters; the last label ends at the right edge."""
    line = [" "] * columns
    end = f"{describe_us(whole)}|"
    for quarter in range(4):
        at, label = columns * quarter // 4, f"|{describe_us(whole * quarter / 4)}"
        if at + len(label) < columns - len(end):
            _write(line, at, label)
    _write(line, columns - len(end), end)
    return "".join(line).rstrip()


def _write(line: list[str], start: int, text: Sequence[str]) -> None:
    for offset, character in enumerate(text):
        if 0 <= start + offset < len(line):
            line[start + offset] = character
