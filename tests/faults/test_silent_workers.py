"""A worker that does not answer: its job ends in time, by another worker or by a typed error."""

import signal

import pytest

from omniflow.client import Client
from omniflow.errors import DeadlineExceeded
from omniflow.v1.cluster_pb2 import WorkerStatus
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs

# What comes before it has come, however busy the machine.
DEADLINE_S = 1.5


async def test_a_role_that_never_answers_is_named_when_the_deadline_passes(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("ignored", {"text": "x"}, deadline=DEADLINE_S)
    act = await stage.act()
    with pytest.raises(DeadlineExceeded) as caught:
        await job.result()
    assert (caught.value.node, caught.value.worker) == ("second.ignore", act.worker)
    assert caught.value.cure
    await next_job_runs(client)


async def test_a_stream_that_stops_ends_at_the_deadline_and_keeps_what_it_gave(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("spoken", {"text": "one two three four"}, deadline=DEADLINE_S)
    values: list[str] = []

    async def read() -> None:
        async for frame in job:
            values.append(frame.value)  # noqa: PERF401 kept when the next one raises

    with pytest.raises(DeadlineExceeded) as caught:
        await read()
    assert values == ["one", "two", "three"]
    assert (caught.value.node, caught.value.worker) == ("third.words", "three")
    assert await (await stage.act()).says() == "cancelled"
    await next_job_runs(client)


async def test_a_role_that_never_comes_back_costs_its_worker_a_restart_and_its_next_job_runs(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    restarts = shared.status_of("three").restarts
    job = await client.submit("ignored_by_the_loner", {"text": "x"}, deadline=DEADLINE_S)
    act = await stage.act()
    with pytest.raises(DeadlineExceeded):
        await job.result()
    following = await client.submit("echoed_by_the_loner", {"text": "y"})
    assert await act.says() == ""
    assert await following.result() == {"result": "y"}
    assert (shared.status_of("three").restarts, shared.status_of("three").last_exit) == (
        restarts + 1,
        "ended with exit code 1",
    )
    assert "role 'loner' does not come back" in shared.log("three")
    await next_job_runs(client)


async def test_a_stopped_worker_is_dead_after_the_heartbeat_limit_and_its_job_runs_elsewhere(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("held_by_one_of_two", {"text": "x"})
    act = await stage.act()
    stopped = shared.send(act.worker, signal.SIGSTOP)
    try:
        again = await stage.act()
        assert again.worker != act.worker
        again.go_on()
        assert await job.result() == {"result": "x"}
        await next_job_runs(client)
    finally:
        stopped.send(signal.SIGCONT)
    assert await act.says() == "cancelled"  # it learns that it has lost the job
    await shared.until_settled(client)  # and serves again, the same process
    assert shared.process(act.worker) == stopped
    await next_job_runs(client)


async def test_a_role_that_holds_the_gil_is_not_taken_for_dead(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("gripped", {"text": "x"})
    gripping = await stage.act()
    # A stopped worker shows when the heartbeat limit has passed for somebody silent since now.
    stopped = shared.send("two-0", signal.SIGSTOP)
    try:
        status = await shared.until_status(
            client,
            lambda status: any(
                worker.info.name == "two-0" and worker.state != WorkerStatus.READY for worker in status.workers
            ),
            "the stopped worker is seen to be dead",
        )
    finally:
        stopped.send(signal.SIGCONT)
    states = {worker.info.name: worker.state for worker in status.workers}
    assert states[gripping.worker] == WorkerStatus.READY
    gripping.go_on()
    assert await job.result() == {"result": "x"}
    await shared.until_settled(client)
