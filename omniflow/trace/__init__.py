"""What a job did, moment by moment: as a Chrome trace that Perfetto opens, and as OpenTelemetry spans.

Both are made of the job's report, which the scheduler keeps for every job, while it runs and after.
"""

from omniflow.trace.build import trace_of
from omniflow.trace.chrome import chrome_trace
from omniflow.trace.model import Arrow, Attempt, JobTrace, PortTraffic

__all__ = ["Arrow", "Attempt", "JobTrace", "PortTraffic", "chrome_trace", "trace_of"]
