"""A job's report, as `submit` shows it."""

from omniflow.cli.submission import completed
from omniflow.errors import UnknownJob
from omniflow.v1.job_pb2 import ActivationReport, JobStatus, NodeProgress, Report


def report(*states: NodeProgress.State.ValueType) -> Report:
    return Report(jct_us=9, activations=[ActivationReport(node="n", state=state) for state in states])


async def test_what_a_worker_says_after_the_jobs_end_is_asked_for() -> None:
    late = report(NodeProgress.DONE, NodeProgress.DONE)

    async def ask() -> JobStatus:
        return JobStatus(report=late)

    for open_state in (NodeProgress.STATE_UNSPECIFIED, NodeProgress.STARTED):
        assert await completed(report(NodeProgress.DONE, open_state), ask) == late


async def test_a_whole_report_is_not_asked_for_again() -> None:
    async def ask() -> JobStatus:
        raise AssertionError("nothing is missing")

    whole = report(NodeProgress.DONE, NodeProgress.LOST, NodeProgress.FAILED, NodeProgress.STOPPED)
    assert await completed(whole, ask) == whole
    assert await completed(None, ask) is None


async def test_a_scheduler_that_does_not_know_the_job_any_more_takes_nothing_away() -> None:
    async def ask() -> JobStatus:
        raise UnknownJob("gone")

    found = report(NodeProgress.STARTED)
    assert await completed(found, ask) == found
