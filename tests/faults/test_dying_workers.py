"""A worker that dies loses no job: what it ran is run again, and the client notices nothing but a pause."""

import pytest

from omniflow.client import Client, Job
from omniflow.errors import NotReplayable, WorkerLost
from omniflow.v1.job_pb2 import NodeProgress
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs, whole_report

TEXT = "one two three four five six"


def attempts(job: Job, node: str) -> list[tuple[str, str]]:
    """Worker and fate of each attempt at a node. (That one was done may be said after the job's end.)"""
    assert job.report is not None
    found = [activation for activation in job.report.activations if activation.node == node]
    return [(each.worker, "lost" if each.state == NodeProgress.LOST else "stayed") for each in found]


async def test_a_job_of_a_killed_worker_runs_again_on_another(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("held_by_one_of_two", {"text": TEXT})
    act = await stage.act()
    shared.kill(act.worker)
    again = await stage.act()
    assert again.worker != act.worker
    assert again.epoch == act.epoch + 1
    again.go_on()
    assert await job.result() == {"result": TEXT}
    assert attempts(job, "second.hold") == [(act.worker, "lost"), (again.worker, "stayed")]


async def test_the_launcher_restarts_a_killed_worker_and_its_job_runs_there(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    restarts = shared.status_of("one").restarts
    job = await client.submit("held", {"text": TEXT})
    act = await stage.act()
    assert act.worker == "one"
    killed = shared.kill("one")
    assert await act.says() == ""
    again = await stage.act()
    assert again.worker == "one"
    again.go_on()
    assert await job.result() == {"result": TEXT}
    status = shared.status_of("one")
    assert status.restarts == restarts + 1
    assert status.last_exit == "killed by SIGKILL"
    assert status.process != killed


async def test_frames_for_a_worker_killed_in_the_middle_of_a_chain_are_sent_again(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("held_in_the_middle", {"text": TEXT})
    told, held = await stage.acts(2)
    assert (told.node, held.node) == ("first.tell", "second.hold")
    shared.kill(held.worker)
    again = await stage.act()
    assert again.node == "second.hold"  # `first` has not run again: it kept what it had sent
    again.go_on()
    assert (await stage.act()).node == "third.tell"
    assert await job.result() == {"result": TEXT}
    assert stage.quiet


async def test_a_stream_through_a_killed_worker_goes_on_without_a_seam(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("streamed_through_the_middle", {"text": TEXT})
    act = await stage.act()
    assert act.node == "second.relay"
    shared.kill(act.worker)
    assert await job.result() == {"result": TEXT}
    assert [state for _, state in attempts(job, "second.relay")] == ["lost", "stayed"]
    assert [state for _, state in attempts(job, "first.words")] == ["stayed"]


async def test_results_that_reached_the_client_are_continued_without_a_seam(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("spoken", {"text": TEXT})
    frames = []
    async for frame in job:
        frames.append((frame.seq, frame.value))
        if len(frames) == 3:
            shared.kill((await stage.act()).worker)
    assert frames == list(enumerate(TEXT.split()))
    assert attempts(job, "third.words") == [("three", "lost"), ("three", "stayed")]


async def test_results_that_reached_the_client_are_never_contradicted(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("guessed", {"text": TEXT})
    values: list[str] = []

    async def read() -> None:
        async for frame in job:
            values.append(frame.value)
            if len(values) == 2:
                shared.kill((await stage.act()).worker)

    with pytest.raises(NotReplayable) as caught:
        await read()
    assert values == ["one-1", "two-1"]
    assert (caught.value.node, caught.value.worker) == ("third.guess", "three")
    assert caught.value.cure
    await next_job_runs(client)


async def test_rule_12_a_resumable_stream_goes_on_after_what_was_delivered_and_is_not_made_again(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("improvised", {"text": TEXT})
    heard: dict[str, list[str]] = {}
    killed = ""
    async for frame in job:
        words = heard.setdefault(frame.port, [])
        assert frame.seq == len(words)
        words.append(frame.value)
        if not killed and len(heard) == 2 and all(len(each) == 3 for each in heard.values()):
            act = await stage.act()
            killed = act.worker
            shared.kill(killed)
    said, relayed = heard.values()
    assert said == relayed == [f"{word}-{1 if n < 3 else 2}" for n, word in enumerate(TEXT.split())]
    assert [state for _, state in attempts(job, "second.improvise")] == ["lost", "stayed"]
    assert attempts(job, "second.improvise")[0][0] == killed
    assert [state for _, state in attempts(job, "first.relay")] == ["stayed"]
    report = await whole_report(client, job.id)
    resumed = [each.features.get("resumed") for each in report.activations if each.node == "second.improvise"]
    assert resumed == [None, 3.0]


async def test_a_producer_that_is_gone_runs_again_for_a_consumer_that_needs_it(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("held_in_the_middle", {"text": TEXT})
    _, held = await stage.acts(2)
    shared.kill("one")
    shared.kill(held.worker)
    told_again, held_again = await stage.acts(2)
    assert (told_again.node, held_again.node) == ("first.tell", "second.hold")
    held_again.go_on()
    assert (await stage.act()).node == "third.tell"
    assert await job.result() == {"result": TEXT}


async def test_a_job_that_kills_every_worker_ends_in_a_typed_error(
    client: Client, shared: PuppetCluster, stage: Stage
) -> None:
    job = await client.submit("held", {"text": TEXT})
    for _ in range(3):
        shared.kill((await stage.act()).worker)
    with pytest.raises(WorkerLost) as caught:
        await job.result()
    assert (caught.value.node, caught.value.worker) == ("first.hold", "one")
    assert "attempt 3" in caught.value.message
    assert caught.value.cure
    assert stage.quiet
    await next_job_runs(client)
