"""Roles that break their word: one typed error that names them, or none at all; bounded memory; the next job runs."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from omniflow.client import Client
from omniflow.errors import BadOutput, BadRoute, Cancelled, FlowStalled
from omniflow.flow import Flow, flow, route, use
from omniflow.types import Stream, Text
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs
from tests.cluster_fixtures.unruly import Listener, Unruly

MEBIBYTE = 1024 * 1024
RETAINED = 16 * MEBIBYTE
# What a process may grow by. Python itself takes tens of megabytes for a hundred thousand strings.
GROWTH = 400 * MEBIBYTE
PATIENCE_S = 25.0
# For a whole process to start and end on a busy machine.
START_S = 45.0
MANY = 100_000

first = use(Puppet, "first")
unruly = use(Unruly)
listener = use(Listener)


@flow
def mixed(text: Text) -> Stream[Text]:
    return unruly.mixed(text)


@flow
def mixed_for_another(text: Text) -> Text:
    return listener.count(unruly.mixed(text))


@flow
def afterthought(text: Text) -> tuple[Stream[Text], Text]:
    """Cannot be over before the thought comes."""
    return unruly.afterthought(text), first.hold(text)


@flow
def stutter(text: Text) -> tuple[Text, Text]:
    """Nor can this one before the second value."""
    return unruly.stutter(text), first.hold(text)


@flow
def elsewhere(text: Text) -> Text:
    return unruly.elsewhere(text)


@flow
def empty(text: Text) -> Text:
    return unruly.empty(text)


@flow
def silent(text: Text) -> Stream[Text]:
    return unruly.silent(text)


@flow
def silent_for_another(text: Text) -> Text:
    return listener.count(unruly.silent(text))


@flow
def endless(text: Text) -> Stream[Text]:
    """Its client reads: on a busy machine it must not be far ahead before anybody hears that it has to wait."""
    return unruly.steady(text, kibibytes=0)


@flow
def endless_for_a_reader_that_waits(text: Text) -> Text:
    return listener.after(unruly.endless(text, kibibytes=64), first.hold(text))


@flow
def burst(text: Text) -> Stream[Text]:
    return unruly.burst(text, count=MANY)


@flow
def burst_for_another(text: Text) -> Text:
    return listener.count(unruly.burst(text, count=MANY))


@flow
def counted(words: Stream[Text]) -> Text:
    return listener.count(words)


@flow
def forked(text: Text) -> Text:
    return route(unruly.choose(text), left=lambda: first.echo(text), right=lambda: listener.echo(text))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    """One worker of a role that does as it pleases, one of those that the next job goes through."""
    workers: list[dict[str, Any]] = [
        {"name": "tame", "roles": ["first", "second", "third", "listener"]},
        {"name": "wild", "roles": ["unruly"], "retention_bytes": RETAINED},
    ]
    with running(write_cluster(tmp_path_factory.mktemp("unruly"), workers)) as started:
        yield started


@pytest.fixture(autouse=True)
async def nobody_else_notices(client: Client, cluster: PuppetCluster) -> AsyncIterator[None]:
    """No process is another one afterwards, none has grown without bound, and the next job runs."""
    names = ("scheduler", "tame", "wild")
    before = {name: cluster.process(name) for name in names}
    sizes = {name: psutil.Process(process.pid).memory_info().rss for name, process in before.items()}
    yield
    await next_job_runs(client)
    await cluster.until_settled(client)
    assert {name: cluster.process(name) for name in names} == before
    for name, process in before.items():
        grown = psutil.Process(process.pid).memory_info().rss - sizes[name]
        assert grown < GROWTH, f"{name} has grown by {grown / MEBIBYTE:.0f} MiB"


async def fault_of(client: Client, flow: Flow[..., Any], text: str = "one two") -> BadOutput:
    job = await client.submit(flow, {"text": text}, deadline=PATIENCE_S)
    with pytest.raises(BadOutput) as caught:
        await job.result()
    assert caught.value.worker == "wild"
    assert caught.value.cure
    return caught.value


async def test_a_frame_of_another_type_is_named_and_what_came_before_it_is_kept(client: Client) -> None:
    job = await client.submit(mixed, {"text": "one two"}, deadline=PATIENCE_S)
    frames = aiter(job)
    assert [(await anext(frames)).value for _ in range(2)] == ["one", "two"]
    with pytest.raises(BadOutput) as caught:
        await anext(frames)
    error = caught.value
    assert (error.node, error.worker) == ("unruly.mixed", "wild")
    assert "Stream[Text]" in error.message
    assert error.cure


async def test_a_frame_of_another_type_ends_the_job_for_its_readers_too(client: Client) -> None:
    error = await fault_of(client, mixed_for_another)
    assert error.node == "unruly.mixed"


@pytest.mark.usefixtures("stage")
async def test_a_frame_after_the_end_of_its_stream_is_named(client: Client) -> None:
    error = await fault_of(client, afterthought)
    assert error.node == "unruly.afterthought"


@pytest.mark.usefixtures("stage")
async def test_a_second_value_where_one_is_declared_is_named(client: Client) -> None:
    error = await fault_of(client, stutter)
    assert error.node == "unruly.stutter"
    assert "once" in error.cure


async def test_an_output_that_the_method_does_not_have_is_named_with_those_it_has(client: Client) -> None:
    error = await fault_of(client, elsewhere)
    assert error.node == "unruly.elsewhere"
    assert "nowhere" in error.message
    assert "result" in error.cure


async def test_no_value_where_one_is_declared_is_named(client: Client) -> None:
    error = await fault_of(client, empty)
    assert error.node == "unruly.empty"


async def test_a_choice_of_a_branch_that_is_not_there_is_named_with_those_that_are(client: Client) -> None:
    job = await client.submit(forked, {"text": "right"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": "right"}
    job = await client.submit(forked, {"text": "straight on"}, deadline=PATIENCE_S)
    with pytest.raises(BadRoute) as caught:
        await job.result()
    assert "straight on" in caught.value.message
    assert "left" in caught.value.message
    assert "test_role_faults.py" in caught.value.message
    assert caught.value.cure


async def test_a_stream_of_nothing_is_an_empty_list_and_fires_its_readers(client: Client) -> None:
    job = await client.submit(silent, {"text": "x"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": []}
    job = await client.submit(silent_for_another, {"text": "x"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": "0 in order"}


async def test_a_stream_without_end_stops_when_its_job_is_cancelled(client: Client, stage: Stage) -> None:
    job = await client.submit(endless, {"text": "on and on"})
    act = await stage.act()
    frames = aiter(job)
    assert [(await anext(frames)).value for _ in range(3)] == ["on and on"] * 3
    assert await job.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        await job.result()
    while (said := await act.says()) != "stopped":
        assert said.isdecimal()


async def test_a_stream_without_end_that_nobody_reads_yet_stalls_its_job_by_name(client: Client, stage: Stage) -> None:
    job = await client.submit(endless_for_a_reader_that_waits, {"text": "on and on"})
    with pytest.raises(FlowStalled) as caught:
        await job.result()
    assert "unruly.endless" in str(caught.value)
    assert caught.value.worker == "wild"
    act = await stage.act()
    while act.node != "unruly.endless":  # the other one may be stopped before it begins
        act = await stage.act()
    assert await act.says() == "stopped"


async def test_100_000_frames_at_once_reach_another_worker_in_order(client: Client) -> None:
    job = await client.submit(burst_for_another, {"text": "f"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": f"{MANY} in order"}


async def test_100_000_frames_at_once_reach_the_client_in_order(client: Client) -> None:
    job = await client.submit(burst, {"text": ""}, deadline=PATIENCE_S)
    assert await job.result() == {"result": [str(number) for number in range(MANY)]}


async def test_100_000_frames_of_an_input_reach_their_reader_in_order(client: Client) -> None:
    job = await client.submit(counted, {"words": [str(number) for number in range(MANY)]}, deadline=PATIENCE_S)
    assert await job.result() == {"result": f"{MANY} in order"}


def old_and_new() -> tuple[Flow[..., Any], Flow[..., Any]]:
    """Two flows of one name."""

    def make_old() -> Flow[..., Any]:
        @flow
        def redefined(text: Text) -> Text:
            return first.hold(text)

        return redefined

    @flow
    def redefined(text: Text) -> Text:
        return listener.count(unruly.silent(text))

    return make_old(), redefined


async def test_a_flow_redefined_while_its_jobs_run_runs_in_both_versions(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    old, new = old_and_new()
    running_job = await client.submit(old, {"text": "the old one"}, deadline=PATIENCE_S)
    act = await stage.act()
    new_job = await client.submit(new, {"text": "the new one"}, deadline=PATIENCE_S)
    assert await new_job.result() == {"result": "0 in order"}
    async with Client(cluster.address) as another:
        by_name = await another.submit("redefined", {"text": "whichever is newest"}, deadline=PATIENCE_S)
        assert await by_name.result() == {"result": "0 in order"}
    act.go_on()
    assert await running_job.result() == {"result": "the old one"}
    assert running_job.flow_version != new_job.flow_version
    # The old one is still there for those who ask for it by content.
    again = await client.submit(old, {"text": "the old one again"}, deadline=PATIENCE_S)
    (await stage.act()).go_on()
    assert await again.result() == {"result": "the old one again"}


async def test_a_second_worker_of_a_name_is_refused_and_the_first_serves_on(
    client: Client, cluster: PuppetCluster, tmp_path: Path
) -> None:
    before = await client.workers()
    # All as the first one has it, but for the address, which two processes cannot share in the first place.
    same = json.loads((cluster.run / "config" / "wild.json").read_text())
    settings = tmp_path / "wild.json"
    settings.write_text(json.dumps({**same, "listen": ["tcp:127.0.0.1:0"]}))
    second = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "omniflow_workers",
        "--config",
        str(settings),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(START_S):
        said, _ = await second.communicate()
    assert second.returncode == 1
    assert "the name 'wild' is taken" in said.decode(), said.decode()
    after = await client.workers()
    assert [worker.info.incarnation for worker in after] == [worker.info.incarnation for worker in before]
    job = await client.submit(silent_for_another, {"text": "x"}, deadline=PATIENCE_S)
    assert await job.result() == {"result": "0 in order"}
