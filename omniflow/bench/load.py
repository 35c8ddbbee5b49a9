"""How jobs arrive. Closed loop: so many at once, a new one when one ends. Open loop: at a rate, come what may.

In an open loop a job's time counts from when it *should* have arrived. A server (or a client) that stalls makes all the
jobs late that were due meanwhile; counting from when they could be sent would hide just the delays one looks for.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from omniflow.bench.sample import Sample


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one job. `first_frame` and `first_audio` (the first frame of sound) are on the load's clock."""

    first_frame: float | None = None
    first_audio: float | None = None
    audio_seconds: float = 0.0
    jct_s: float | None = None
    failure: str = ""


class Clock(Protocol):
    """Time as the load sees it."""

    def now(self) -> float:
        """Seconds."""

    async def sleep_until(self, when: float) -> None:
        """Returns at `when`, or at once when that has passed."""


class MonotonicClock:
    """To the microsecond; an event loop's own may be one of milliseconds."""

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    async def sleep_until(self, when: float) -> None:
        """Sleeps."""
        await asyncio.sleep(max(0.0, when - self.now()))


Submit = Callable[[int], Awaitable[Reply]]
"""Runs the job with this number to its end. What it cannot handle it raises: that ends the test."""
OnSample = Callable[[Sample], None]


def poisson_arrivals(rate: float, seed: int) -> Iterator[float]:
    """Seconds from the start at which jobs arrive, `rate` a second on average."""
    dice, at = random.Random(seed), 0.0  # noqa: S311 no secret
    while True:
        at += dice.expovariate(rate)
        yield at


async def closed_loop(
    submit: Submit, concurrency: int, jobs: int | None, duration_s: float | None, clock: Clock, on_sample: OnSample
) -> list[Sample]:
    """`concurrency` jobs at once until `jobs` are done, or for `duration_s`; what runs then is waited for."""
    samples: list[Sample] = []
    numbers = iter(count() if jobs is None else range(jobs))
    until = None if duration_s is None else clock.now() + duration_s

    async def one_after_another() -> None:
        for number in numbers:
            if until is not None and clock.now() >= until:
                return
            sample = await _run(submit, number, clock.now(), clock)
            samples.append(sample)
            on_sample(sample)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency if jobs is None else min(concurrency, jobs)):
            group.create_task(one_after_another())
    return samples


async def open_loop(
    submit: Submit,
    arrivals: Iterator[float],
    jobs: int | None,
    duration_s: float | None,
    clock: Clock,
    on_sample: OnSample,
) -> list[Sample]:
    """One job at each of `arrivals` (seconds from now), for `jobs` jobs or `duration_s`; all are waited for."""
    samples: list[Sample] = []
    start = clock.now()

    async def one(number: int, intended: float) -> None:
        sample = await _run(submit, number, intended, clock)
        samples.append(sample)
        on_sample(sample)

    async with asyncio.TaskGroup() as group:
        for number, offset in enumerate(arrivals):
            if number == jobs or (duration_s is not None and offset > duration_s):
                break
            await clock.sleep_until(start + offset)
            group.create_task(one(number, start + offset))
    return samples


async def _run(submit: Submit, number: int, intended: float, clock: Clock) -> Sample:
    sent = clock.now()
    reply = await submit(number)
    return Sample(
        intended=intended,
        sent=sent,
        ended=clock.now(),
        first_frame=reply.first_frame,
        first_audio=reply.first_audio,
        audio_seconds=reply.audio_seconds,
        jct_s=reply.jct_s,
        failure=reply.failure,
    )
