"""What a load test counts, shown on a clock that the test moves."""

import asyncio
import itertools

import pytest

from omniflow.bench import Reply, Sample, closed_loop, open_loop, poisson_arrivals, summarise


class FakeClock:
    """Time passes only when somebody sleeps or a job takes some."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(0)  # lets the job that was started just now begin
        self.time = max(self.time, when)


class SerialServer:
    """Serves one job at a time, 10 ms each; stalls for a second at one of them."""

    def __init__(self, clock: FakeClock, stall_at: int | None = None) -> None:
        self.clock = clock
        self.stall_at = stall_at

    async def submit(self, number: int) -> Reply:
        # The whole client stands still with it, as when its event loop is held up.
        self.clock.time += 1.0 if number == self.stall_at else 0.010
        return Reply(first_frame=self.clock.time)


async def _open(server: SerialServer, jobs: int) -> list[Sample]:
    arrivals = (0.020 * index for index in range(10**6))
    return await open_loop(server.submit, arrivals, jobs, None, server.clock, lambda _: None)


async def test_open_loop_counts_a_stall_in_every_job_that_was_due_meanwhile() -> None:
    clock = FakeClock()
    samples = await _open(SerialServer(clock, stall_at=5), 100)
    by_arrival = sorted(samples, key=lambda sample: sample.intended)
    # Due at 0.12 s, while the stall lasts to 1.1 s: it was sent late, and all of that is its own latency.
    victim = by_arrival[6]
    assert victim.intended == pytest.approx(0.120)
    assert victim.sent > 1.0
    assert victim.latency > 0.9
    assert sum(sample.latency > 0.1 for sample in samples) > 40
    assert float(summarise(samples, clock.time)["p95_e2el_ms"] or 0) > 500


async def test_a_steady_server_shows_its_service_time_only() -> None:
    clock = FakeClock()
    samples = await _open(SerialServer(clock), 100)
    assert max(sample.latency for sample in samples) == pytest.approx(0.010)
    assert summarise(samples, clock.time)["p99_send_delay_ms"] == pytest.approx(0.0, abs=1e-6)


async def test_open_loop_ends_after_its_duration_and_waits_for_all() -> None:
    clock = FakeClock()
    server = SerialServer(clock)
    arrivals = (0.1 * index for index in range(10**6))
    samples = await open_loop(server.submit, arrivals, None, 1.05, clock, lambda _: None)
    assert len(samples) == 11


def test_poisson_arrivals_have_the_rate_and_the_scatter_of_poisson() -> None:
    arrivals = poisson_arrivals(50.0, seed=7)
    times = [next(arrivals) for _ in range(5000)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.05)
    assert variance == pytest.approx(1 / 50**2, rel=0.15)
    again = poisson_arrivals(50.0, seed=7)
    assert [next(again) for _ in range(10)] == times[:10]


async def test_closed_loop_keeps_exactly_so_many_in_flight() -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def submit(number: int) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            release.set()
        await release.wait()
        running -= 1
        return Reply()

    seen: list[Sample] = []
    samples = await closed_loop(submit, 4, 20, None, FakeClock(), seen.append)
    assert len(samples) == len(seen) == 20
    assert most == 4


async def test_closed_loop_ends_after_its_duration() -> None:
    clock = FakeClock()
    samples = await closed_loop(SerialServer(clock).submit, 1, None, 0.095, clock, lambda _: None)
    assert len(samples) == 10
