"""One job from submission to its last frame, for `submit` and `demo`."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omniflow.cli.waiting import tell_while_waiting
from omniflow.client import Client, Job
from omniflow.errors import OmniFlowError
from omniflow.v1 import job_pb2

OnStep = Callable[[job_pb2.NodeProgress], None]
OnWait = Callable[[str], None]


@dataclass(slots=True)
class Finished:
    """What came of a job. `frames`: the values of each result, in order; those that came before an error, too."""

    job: str
    frames: dict[str, list[Any]] = field(default_factory=dict)
    report: job_pb2.Report | None = None
    error: OmniFlowError | None = None


async def run_job(
    client: Client,
    flow: str,
    inputs: Mapping[str, Any],
    on_step: OnStep,
    on_wait: OnWait,
    *,
    parameters: Mapping[str, Any] | None = None,
    priority: int = 0,
    deadline: float | None = None,
) -> Finished:
    """Submits it and collects its frames; `on_step` hears of its nodes, `on_wait` why it does not begin.

    Raises what it was refused with.
    """
    job = await client.submit(flow, inputs, parameters=parameters, priority=priority, deadline=deadline, progress=True)
    async with job:
        return await _follow(client, job, on_step, on_wait)


async def _follow(client: Client, job: Job, on_step: OnStep, on_wait: OnWait) -> Finished:
    frames: defaultdict[str, list[Any]] = defaultdict(list)
    finished = Finished(job.id)

    async def show_steps() -> None:
        async for step in job.progress():
            on_step(step)

    async with asyncio.TaskGroup() as group:
        group.create_task(show_steps())
        waiting = group.create_task(tell_while_waiting(client, job, on_wait))
        try:
            async for frame in job:
                frames[frame.port].append(frame.value)
        except OmniFlowError as error:
            finished.error = error
        waiting.cancel()
    finished.frames = dict(frames)
    finished.report = await completed(job.report, lambda: client.get(job.id))
    return finished


async def completed(
    report: job_pb2.Report | None, ask: Callable[[], Awaitable[job_pb2.JobStatus]]
) -> job_pb2.Report | None:
    """The report with what workers have said since the job's end.

    A job ends with its last result, and its workers report each on a link of its own: some a moment later. Where that
    cannot be had, the report is as it was.
    """
    over = (
        job_pb2.NodeProgress.DONE,
        job_pb2.NodeProgress.FAILED,
        job_pb2.NodeProgress.LOST,
        job_pb2.NodeProgress.STOPPED,
    )
    if report is None or all(activation.state in over for activation in report.activations):
        return report
    try:
        return (await ask()).report
    except OmniFlowError:
        return report
