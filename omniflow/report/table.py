"""The table: one row an attempt, in the order in which they began."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from omniflow.report.features import describe_features
from omniflow.report.spans import Span, end_of, spans_of
from omniflow.report.times import describe_us
from omniflow.v1 import job_pb2


def report_table(report: job_pb2.Report) -> Table:
    """Where the time went, by node and worker. Its title has the job's own figures."""
    spans = spans_of(report)
    whole = end_of(report, spans)
    again = len({(span.node, span.key) for span in spans}) < len(spans)
    worked = any(span.features or span.outcome for span in spans)
    table = Table(
        title=_title(report), title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False
    )
    table.add_column("node", no_wrap=True)
    table.add_column("worker", no_wrap=True)
    if again:
        table.add_column("attempt", justify="right")
    # When each began is the timeline's to show: at 80 columns the work needs the room.
    for name in ("waited", "1st frame", "ran", "of JCT"):
        table.add_column(name, justify="right", no_wrap=True)
    if worked:
        table.add_column("work", min_width=18, overflow="fold")
    for span in spans:
        attempt = [str(span.attempt)] if again else []
        work = [_work(span)] if worked else []
        table.add_row(span.label, span.worker, *attempt, *_times(span, whole), *work)
    return table


def _title(report: job_pb2.Report) -> str:
    first = f", first frame after {describe_us(report.first_frame_us)}" if report.first_frame_us else ""
    return f"Job took {describe_us(report.jct_us)}{first}"


def _times(span: Span, whole: int) -> tuple[str, ...]:
    return (
        describe_us(span.waited),
        describe_us(span.first_frame - span.started),
        describe_us(span.ran),
        f"{span.ran / whole:.0%}",
    )


def _work(span: Span) -> str:
    features = describe_features(span.features)
    return f"[red]{span.outcome}[/red] {features}".rstrip() if span.outcome else features
