"""Where a job's time went, for people: a table by node and worker, and a timeline in text."""

from omniflow.report.features import describe_features
from omniflow.report.table import report_table
from omniflow.report.timeline import report_timeline
from omniflow.report.times import describe_seconds

__all__ = ["describe_features", "describe_seconds", "report_table", "report_timeline"]
