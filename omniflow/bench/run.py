"""One load test against a cluster: warm-up, load, figures."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omniflow.bench.cpu import client_seconds, cluster_seconds, spent
from omniflow.bench.load import MonotonicClock, OnSample, Reply, Submit, closed_loop, open_loop, poisson_arrivals
from omniflow.bench.sample import Sample
from omniflow.bench.statistics import Figures, summarise
from omniflow.client import Client
from omniflow.errors import OmniFlowError
from omniflow.launch import ClusterState, read_state
from omniflow.types import Audio


@dataclass(frozen=True, slots=True)
class Load:
    """What to submit and how. `rate` set: an open loop of so many jobs a second; else `concurrency` at once."""

    flow: str
    inputs: Mapping[str, Any]
    concurrency: int = 1
    rate: float | None = None
    jobs: int | None = 100
    duration_s: float | None = None
    warm_up: int = 0
    """Jobs before the test, which count for nothing."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    deadline_s: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """All jobs, and the figures."""

    samples: list[Sample]
    figures: Figures


async def run_load(
    client: Client, load: Load, state: ClusterState | None, on_start: Callable[[], None], on_sample: OnSample
) -> Outcome:
    """`state`: the cluster where it runs on this machine, for its CPU time. `on_start`: the warm-up is over.

    Raises `OmniFlowError` when even the warm-up fails, or the request itself is wrong.
    """
    clock = MonotonicClock()
    submit = _submitter(client, load, clock)
    await _warm_up(client, load)
    before, own_before = cluster_seconds(state) if state else {}, client_seconds()
    on_start()
    start = clock.now()
    if load.rate is None:
        samples = await closed_loop(submit, load.concurrency, load.jobs, load.duration_s, clock, on_sample)
    else:
        arrivals = poisson_arrivals(load.rate, load.seed)
        samples = await open_loop(submit, arrivals, load.jobs, load.duration_s, clock, on_sample)
    duration_s = clock.now() - start
    own = client_seconds() - own_before
    # A process that was started again meanwhile has another pid, which the state file knows.
    now = read_state(state.run) if state else None
    seconds = spent(before, cluster_seconds(now)) if now else dict.fromkeys(("etcd", "scheduler", "workers"))
    return Outcome(samples, _figures(load, samples, duration_s, {"client": own, **seconds}))


def _submitter(client: Client, load: Load, clock: MonotonicClock) -> Submit:
    async def submit(number: int) -> Reply:
        first_frame: float | None = None
        first_audio: float | None = None
        seconds = 0.0
        try:
            job = await client.submit(
                load.flow, load.inputs, parameters=load.parameters or None, deadline=load.deadline_s
            )
            async for frame in job:
                now = clock.now()
                first_frame = now if first_frame is None else first_frame
                if isinstance(frame.value, Audio):
                    first_audio = now if first_audio is None else first_audio
                    seconds += frame.value.seconds
        except OmniFlowError as error:
            return Reply(first_frame, first_audio, seconds, failure=error.code_name)
        return Reply(first_frame, first_audio, seconds, job.report.jct_us / 1e6 if job.report is not None else None)

    return submit


async def _warm_up(client: Client, load: Load) -> None:
    for _ in range(load.warm_up):
        job = await client.submit(load.flow, load.inputs, parameters=load.parameters or None, deadline=load.deadline_s)
        await job.result()


def _figures(load: Load, samples: list[Sample], duration_s: float, cpu: Mapping[str, float | None]) -> Figures:
    figures: Figures = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "backend": "omni-flow",
        "flow": load.flow,
        "num_prompts": len(samples),
        "request_rate": load.rate if load.rate is not None else "inf",
        "max_concurrency": load.concurrency if load.rate is None else None,
    }
    figures |= summarise(samples, duration_s)
    for who, seconds in cpu.items():
        figures[f"cpu_ms_per_job_{who}"] = seconds * 1e3 / len(samples) if seconds is not None and samples else None
    known = [seconds for seconds in cpu.values() if seconds is not None]
    complete = len(known) == len(cpu) and bool(samples)
    figures["cpu_ms_per_job"] = sum(known) * 1e3 / len(samples) if complete else None
    return figures
