"""Rules 10 and 17 on real disks: what nobody reads yet goes there, up to a job's quota; then it says on which edge.
One that is full fails what needs it, and nothing else."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.errors import FlowStalled, ResourceExhausted
from omniflow.flow import Flow, flow, use
from omniflow.types import Text
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.stage import Stage
from tests.cluster_fixtures.submit import next_job_runs
from tests.cluster_fixtures.unruly import Listener, Unruly

MEBIBYTE = 1024 * 1024
FRAMES = 8_000
# In all of them eight times what memory may hold.
FRAME = "f" * 1_000

first = use(Puppet, "first")
unruly = use(Unruly)
cramped = use(Unruly, "cramped")
homeless = use(Unruly, "homeless")
listener = use(Listener)


@flow
def kept_for_later(text: Text) -> Text:
    """The words are read once the test lets go."""
    return listener.after(unruly.burst(text, count=FRAMES), first.hold(text))


@flow
def endless(text: Text) -> Text:
    return listener.after(unruly.endless(text, kibibytes=64), first.hold(text))


@flow
def endless_for_a_small_disk(text: Text) -> Text:
    return listener.after(cramped.endless(text, kibibytes=64), first.hold(text))


@flow
def endless_for_no_disk(text: Text) -> Text:
    return listener.after(homeless.endless(text, kibibytes=64), first.hold(text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[PuppetCluster]:
    small: dict[str, Any] = {"retention_bytes": MEBIBYTE, "retention_folder": str(folder)}
    workers: list[dict[str, Any]] = [
        {"name": "tame", "roles": ["first", "second", "third", "listener"]},
        {
            **small,
            "name": "wild",
            "roles": ["unruly"],
            "retention_disk_bytes": 64 * MEBIBYTE,
            "retention_job_bytes": 24 * MEBIBYTE,
        },
        {**small, "name": "cramped", "roles": ["cramped"], "retention_disk_bytes": 2 * MEBIBYTE},
        {
            "name": "homeless",
            "roles": ["homeless"],
            "retention_bytes": MEBIBYTE,
            "retention_disk_bytes": 64 * MEBIBYTE,
            "retention_folder": "/dev/null/kept",
        },
    ]
    with running(write_cluster(tmp_path_factory.mktemp("retention"), workers)) as started:
        yield started


def files_on_disk(cluster: PuppetCluster, worker: str, folder: Path) -> int:
    """How many files of the folder the worker has open. They have no names."""
    opened = Path(f"/proc/{cluster.process(worker).pid}/fd")
    found = 0
    for descriptor in opened.iterdir():
        try:
            found += os.readlink(descriptor).startswith(f"{folder}/")
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


async def test_rule_10_what_nobody_reads_yet_goes_to_disk_and_comes_back_in_order(
    client: Client, cluster: PuppetCluster, stage: Stage, folder: Path
) -> None:
    job = await client.submit(kept_for_later, {"text": FRAME})
    act = await stage.act()
    await cluster.until(lambda: files_on_disk(cluster, "wild", folder) > 0, "something is on disk")
    assert os.listdir(folder) == [], "nothing of it would outlive its process"
    act.go_on()
    assert await job.result() == {"result": f"{FRAME} {FRAMES}"}
    await cluster.until(lambda: files_on_disk(cluster, "wild", folder) == 0, "nothing is left on disk")
    await next_job_runs(client)


async def stalled(client: Client, flow: Flow[..., Any]) -> FlowStalled:
    job = await client.submit(flow, {"text": "on and on"})
    with pytest.raises(FlowStalled) as caught:
        await job.result()
    return caught.value


@pytest.mark.usefixtures("stage")
async def test_rule_10_a_job_past_its_quota_stalls_and_names_the_edge(
    client: Client, cluster: PuppetCluster, folder: Path
) -> None:
    error = await stalled(client, endless)
    assert error.worker == "wild"
    assert "unruly.endless" in error.message
    assert f"of {24 * MEBIBYTE} bytes that one job on this worker" in error.message
    assert "retention_job_bytes" in error.cure
    await cluster.until(lambda: files_on_disk(cluster, "wild", folder) == 0, "nothing is left on disk")
    await next_job_runs(client)


@pytest.mark.usefixtures("stage")
async def test_rule_10_a_job_that_finds_no_room_on_disk_stalls_and_names_the_edge(
    client: Client, cluster: PuppetCluster, folder: Path
) -> None:
    error = await stalled(client, endless_for_a_small_disk)
    assert error.worker == "cramped"
    assert "cramped.endless" in error.message
    assert f"of {2 * MEBIBYTE} bytes on disk are in use" in error.message
    assert "retention_disk_bytes" in error.cure
    await cluster.until(lambda: files_on_disk(cluster, "cramped", folder) == 0, "nothing is left on disk")
    await next_job_runs(client)


@pytest.mark.usefixtures("stage")
async def test_rule_10_a_folder_that_cannot_be_is_named(client: Client) -> None:
    error = await stalled(client, endless_for_no_disk)
    assert error.worker == "homeless"
    assert "homeless.endless" in error.message
    assert "/dev/null/kept" in error.message
    assert "retention_folder" in error.cure
    await next_job_runs(client)


@contextmanager
def full_behind(cluster: PuppetCluster, name: str, size: int) -> Iterator[None]:
    """A process whose files can grow no further, as on a full disk: Python ignores the signal, and the write fails."""
    pid = cluster.process(name).pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("stage")
async def test_rule_10_a_disk_that_is_really_full_stalls_the_job_and_nothing_else(
    client: Client, cluster: PuppetCluster, folder: Path
) -> None:
    with full_behind(cluster, "cramped", MEBIBYTE):
        error = await stalled(client, endless_for_a_small_disk)
        assert error.worker == "cramped"
        assert "cramped.endless" in error.message
        assert str(folder) in error.message
        assert "File too large" in error.message
        assert "retention_folder" in error.cure
        await cluster.until(lambda: files_on_disk(cluster, "cramped", folder) == 0, "nothing is left on disk")
        await next_job_runs(client)
    # With room again, it goes as far as its quota.
    error = await stalled(client, endless_for_a_small_disk)
    assert f"of {2 * MEBIBYTE} bytes on disk are in use" in error.message
    await next_job_runs(client)


async def test_rule_17_a_full_disk_refuses_jobs_and_leaves_those_that_run(
    client: Client, cluster: PuppetCluster, stage: Stage
) -> None:
    # Longer than the log, which is to be written on.
    job = await client.submit("held", {"text": "x" * MEBIBYTE})
    act = await stage.act()
    journal = max(file.stat().st_size for file in (cluster.run / "journal").iterdir())
    assert journal > MEBIBYTE
    with full_behind(cluster, "scheduler", journal):
        for _ in range(2):
            with pytest.raises(ResourceExhausted) as caught:
                await client.submit("chain", {"text": "no room"})
            assert str(cluster.run / "journal") in caught.value.message
            assert "File too large" in caught.value.message
            assert "make room" in caught.value.cure
        # Its end cannot be written down yet, so nobody is told of it.
        act.go_on()
    assert await job.result() == {"result": "x" * MEBIBYTE}
    await next_job_runs(client)
