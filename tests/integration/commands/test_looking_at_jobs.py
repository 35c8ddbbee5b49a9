"""`trace`, `flows` and what `submit` says, as a user calls them, on a cluster that runs."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from omniflow.cli.exit_codes import ExitCode
from omniflow.client import Client
from omniflow.errors import UnknownFlow
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.command import omniflow
from tests.cluster_fixtures.stage import Stage, open_stage
from tests.cluster_fixtures.submit import whole_report
from tests.unit.trace.collector import Collector

PATIENCE_S = 25.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PuppetCluster]:
    """`second` has a worker that leaves in one of the tests."""
    workers = [
        {"name": "one", "roles": ["first", "third"]},
        {"name": "two", "roles": ["second"]},
    ]
    with running(write_cluster(tmp_path_factory.mktemp("looked-at"), workers)) as started:
        yield started


@pytest.fixture
async def client(cluster: PuppetCluster) -> AsyncIterator[Client]:
    async with Client(cluster.address) as connected:
        yield connected


@pytest.fixture
async def stage(cluster: PuppetCluster) -> AsyncIterator[Stage]:
    async with open_stage(cluster.stage) as opened:
        yield opened


async def traced(cluster: PuppetCluster, folder: Path, job: str) -> list[dict[str, Any]]:
    done = await omniflow("trace", job, "--out", "job.json", "--address", cluster.address, folder=folder)
    assert done.status == ExitCode.OK, done.output
    assert "ui.perfetto.dev" in done.stdout
    events: list[dict[str, Any]] = json.loads((folder / "job.json").read_text())["traceEvents"]
    return events


def names(events: list[dict[str, Any]], category: str) -> list[str]:
    return sorted(event["name"] for event in events if event.get("cat") == category)


async def test_an_ended_job_is_traced_with_its_workers_and_arrows(
    client: Client, cluster: PuppetCluster, tmp_path: Path
) -> None:
    job = await client.submit("chain", {"text": "hello"}, deadline=PATIENCE_S)
    await job.result()
    await whole_report(client, job.id)
    events = await traced(cluster, tmp_path, job.id)
    assert names(events, "activation") == ["first.echo", "second.echo", "third.echo"]
    assert len(names(events, "edge")) == 4
    assert names(events, "transfer") == ["first.echo.result → second.echo.text", "second.echo.result → third.echo.text"]
    (sent,) = {event["args"]["bytes"] for event in events if event.get("cat") == "transfer"}
    assert sent >= len("hello")
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {f"job {job.id}", "worker one", "worker two"} <= processes


async def test_frames_of_streams_and_results_are_seen(client: Client, cluster: PuppetCluster, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(100)]
    job = await client.submit("streamed_out", {"text": " ".join(words)}, deadline=PATIENCE_S)
    assert (await job.result())["result"] == words
    await whole_report(client, job.id)
    events = await traced(cluster, tmp_path, job.id)
    (spoken,) = [event for event in events if event["name"] == "third.words"]
    assert spoken["args"]["result.frames"] == len(words)
    frames = names(events, "frame")
    assert 8 <= frames.count("frame of result") <= 16
    assert 7 <= frames.count("frame") <= 16
    assert "first result frame" in frames


async def test_a_job_is_sent_to_a_collector_as_spans(client: Client, cluster: PuppetCluster, tmp_path: Path) -> None:
    job = await client.submit("chain", {"text": "hello"}, deadline=PATIENCE_S)
    await job.result()
    await whole_report(client, job.id)
    collector = Collector()
    try:
        done = await omniflow(
            "trace", job.id, "--otlp", collector.url, "--address", cluster.address, "--json", folder=tmp_path
        )
    finally:
        collector.close()
    assert json.loads(done.stdout) == {"job": job.id, "activations": 3, "spans": 4}
    assert collector.span_names == ["first.echo", "job chain", "second.echo", "third.echo"]
    assert not (tmp_path / "trace.json").exists()


async def test_a_job_is_traced_while_it_runs(
    client: Client, cluster: PuppetCluster, stage: Stage, tmp_path: Path
) -> None:
    job = await client.submit("held", {"text": "hello"}, deadline=PATIENCE_S)
    act = await stage.act()
    events = await traced(cluster, tmp_path, job.id)
    (held,) = [event for event in events if event["name"] == "first.hold"]
    assert held["args"]["state"] == "running"
    assert names(events, "running") == ["running"]
    act.go_on()
    await job.result()


async def test_a_job_that_is_not_known_cannot_be_traced(cluster: PuppetCluster, tmp_path: Path) -> None:
    done = await omniflow("trace", "0000000000000bad", "--address", cluster.address, folder=tmp_path)
    assert done.status == ExitCode.USAGE
    assert "no job" in done.stderr
    assert not (tmp_path / "trace.json").exists()


async def test_a_flow_is_listed_with_what_it_takes_and_gone_when_it_is_unregistered(
    client: Client, cluster: PuppetCluster, stage: Stage, tmp_path: Path
) -> None:
    at = ("--address", cluster.address)
    listed = await omniflow("flows", *at, folder=tmp_path)
    assert listed.status == ExitCode.OK, listed.output
    (line,) = [line for line in listed.stdout.splitlines() if line.split()[:1] == ["held"]]
    assert "text: Text" in line
    assert "first" in line
    running_job = await client.submit("held", {"text": "still here"}, deadline=PATIENCE_S)
    act = await stage.act()
    done = await omniflow("flows", "--unregister", "held", *at, "--json", folder=tmp_path)
    assert json.loads(done.stdout) == {"flow": "held", "versions": 1}
    async with Client(cluster.address) as another:
        with pytest.raises(UnknownFlow):
            await another.submit("held", {"text": "too late"})
    act.go_on()
    assert await running_job.result() == {"result": "still here"}
    refused = await omniflow("flows", "--unregister", "hlod", *at, folder=tmp_path)
    assert refused.status == ExitCode.USAGE
    assert "no flow is called 'hlod'" in refused.stderr


async def test_a_refused_submission_leaves_no_folder(cluster: PuppetCluster, tmp_path: Path) -> None:
    done = await omniflow("submit", "chian", "--input", "text=x", "--address", cluster.address, folder=tmp_path)
    assert done.status == ExitCode.USAGE
    assert "did you mean 'chain'?" in done.stderr
    assert not (tmp_path / "out").exists()


async def test_a_job_that_waits_says_for_which_role(client: Client, cluster: PuppetCluster, tmp_path: Path) -> None:
    await client.drain("two")
    await cluster.until_status(
        client, lambda status: all(worker.info.name != "two" for worker in status.workers), "two has left"
    )
    done = await omniflow(
        "submit", "chain", "--input", "text=x", "--deadline", "10", "--address", cluster.address, folder=tmp_path
    )
    assert done.status == ExitCode.REFUSED
    assert "chain waits: no worker serves second" in done.stderr
    assert not (tmp_path / "out").exists()
