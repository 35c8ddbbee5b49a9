"""Starting and ending a cluster when something stands in the way, and what is left afterwards: nothing."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omniflow.cli.exit_codes import ExitCode
from omniflow.client import Client
from omniflow.errors import RoleFailed
from omniflow.launch.identity import marked_with
from tests.cluster_fixtures.cluster import PUPPET, PuppetCluster, running, write_cluster
from tests.cluster_fixtures.command import Done, command, omniflow
from tests.cluster_fixtures.ports import free_port
from tests.cluster_fixtures.shared_memory import no_new_names_stay
from tests.cluster_fixtures.submit import next_job_runs

ALL_ROLES: list[dict[str, Any]] = [{"name": "all", "roles": ["first", "second", "third", "loner"]}]


@pytest.fixture
def shared_memory() -> Iterator[None]:
    """Nothing new is in /dev/shm afterwards."""
    with no_new_names_stay():
        yield


def assert_nothing_is_left(cluster: PuppetCluster, sockets: Path | None) -> None:
    assert list(marked_with(cluster.run)) == []
    assert sockets is not None
    assert not sockets.exists()
    assert {entry.name for entry in cluster.run.iterdir()} <= {"logs", "config", "etcd", "journal"}
    assert list((cluster.run / "config").iterdir()) == []


async def test_a_second_up_on_the_same_run_folder_is_refused_and_harms_nothing(
    client: Client, shared: PuppetCluster, tmp_path: Path
) -> None:
    before = shared.state
    done = await omniflow("up", str(shared.file), "--detach", folder=tmp_path)
    assert done.status == ExitCode.FAILED
    assert f"already runs on {shared.run}" in done.output
    assert "omniflow down" in done.output
    assert shared.state == before
    await next_job_runs(client)


async def test_a_second_up_on_the_same_port_names_its_holder_and_harms_nothing(
    client: Client, shared: PuppetCluster, tmp_path: Path
) -> None:
    second = write_cluster(tmp_path, ALL_ROLES, scheduler={"listen": shared.address})
    done = await omniflow("up", str(second.file), "--detach", folder=tmp_path)
    assert done.status == ExitCode.FAILED
    assert f"{shared.address} is in use by process {shared.process('scheduler').pid}" in done.output
    assert "scheduler.listen" in done.output
    assert list(marked_with(second.run)) == []
    await next_job_runs(client)


async def test_an_etcd_that_cannot_be_reached_at_start_is_named(tmp_path: Path) -> None:
    endpoint = f"127.0.0.1:{free_port('127.0.0.1')}"
    cluster = write_cluster(tmp_path, ALL_ROLES, etcd={"endpoints": [endpoint]}, start_timeout_s=4)
    done = await omniflow("up", str(cluster.file), "--detach", folder=tmp_path)
    assert done.status == ExitCode.FAILED
    assert "etcd" in done.output
    assert endpoint in done.output
    assert list(marked_with(cluster.run)) == []


async def test_a_role_that_does_not_load_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    wrong = {"class": PUPPET, "options": {"stgae": "x"}}
    cluster = write_cluster(tmp_path, [{"name": "bad", "roles": [wrong]}])
    done = await omniflow("up", str(cluster.file), "--detach", folder=tmp_path)
    assert done.status == ExitCode.FAILED
    assert "bad ended with exit code" in done.output
    assert "unknown option 'stgae'" in done.output
    assert list(marked_with(cluster.run)) == []


FLOW = """from omniflow import Text, flow, use
from omniflow.roles import Role, method

class Tts(Role):
    @method
    def speak(self, text: Text) -> Text: ...

tts = use(Tts)

@flow
def spoken(text: Text) -> Text:
    return tts.{method}(text)
"""


@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["foreground", "detached"])
async def test_a_broken_flow_has_one_exit_status_however_the_cluster_is_started(
    tmp_path: Path, more: list[str]
) -> None:
    flow = tmp_path / "spoken_flow.py"
    flow.write_text(FLOW.format(method="speek"))
    cluster = write_cluster(tmp_path, ALL_ROLES, flows=[str(flow)])
    done = await omniflow("up", str(cluster.file), *more, folder=tmp_path)
    assert done.status == ExitCode.USAGE
    assert "did you mean `speak`?" in done.output
    assert "return tts.speek(text)" in done.output
    assert list(marked_with(cluster.run)) == []


@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["foreground", "detached"])
async def test_a_flow_file_that_is_missing_is_named_with_the_line_of_the_cluster_file(
    tmp_path: Path, more: list[str]
) -> None:
    cluster = write_cluster(tmp_path, ALL_ROLES, flows=[str(tmp_path / "absent_flow.py")])
    line = next(n for n, text in enumerate(cluster.file.read_text().splitlines(), 1) if "absent_flow" in text)
    done = await omniflow("up", str(cluster.file), *more, folder=tmp_path)
    assert done.status == ExitCode.USAGE
    assert f"{cluster.file}:{line}: 'flows[0]': there is no file" in done.output


async def test_a_role_that_flows_use_and_no_worker_serves_is_remarked_on(tmp_path: Path) -> None:
    flow = tmp_path / "spoken_flow.py"
    flow.write_text(FLOW.format(method="speak"))
    cluster = write_cluster(tmp_path, ALL_ROLES, flows=[str(flow)])
    try:
        done = await omniflow("up", str(cluster.file), "--detach", folder=tmp_path)
        assert done.status == ExitCode.OK, done.output
        assert "no worker serves role `tts`, so that no job of `spoken` can run" in done.output
    finally:
        await omniflow("down", str(cluster.file), "--force", folder=tmp_path)


async def test_a_second_worker_of_one_name_is_told_who_has_it_and_harms_nothing(
    client: Client, shared: PuppetCluster, tmp_path: Path
) -> None:
    first = next(process for process in shared.state.processes if process.kind == "worker")
    assert first.process is not None
    told = json.loads((shared.run / "config" / f"{first.name}.json").read_text())
    same = await second_worker(told, tmp_path)
    assert same.status == 1
    assert f"worker '{first.name}' runs already" in same.output
    assert f"process {first.process.pid}" in same.output
    elsewhere = await second_worker({**told, "listen": ["tcp:127.0.0.1:0"]}, tmp_path)
    assert elsewhere.status == 1
    assert f"the name '{first.name}' is taken in cluster" in elsewhere.output
    assert f"pid {first.process.pid}" in elsewhere.output
    assert "Traceback" not in same.output + elsewhere.output
    await next_job_runs(client)


async def second_worker(config: dict[str, Any], folder: Path) -> Done:
    """Runs a worker until it ends by itself."""
    file = folder / "worker.json"
    file.write_text(json.dumps(config))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return await command(sys.executable, "-m", "omniflow_workers", "--config", str(file), env=environment)


async def test_a_full_disk_for_logs_stops_nobody_and_no_job(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path, ALL_ROLES, log_level="debug")
    logs = cluster.run / "logs"
    logs.mkdir(parents=True)
    for name in ("etcd", "scheduler", "all", "supervisor"):
        (logs / f"{name}.log").symlink_to("/dev/full")
    with running(cluster):
        async with Client(cluster.address) as client:
            await next_job_runs(client)
            job = await client.submit("failing", {"text": "which is logged"})
            with pytest.raises(RoleFailed):
                await job.result()
            await next_job_runs(client)
        assert all(process.restarts == 0 for process in cluster.state.processes)


async def test_down_leaves_nothing(tmp_path: Path, shared_memory: None) -> None:
    cluster = write_cluster(tmp_path, ALL_ROLES)
    with running(cluster):
        async with Client(cluster.address) as client:
            await next_job_runs(client)
        sockets = cluster.state.sockets
        done = await omniflow("down", str(cluster.file), folder=tmp_path)
        assert done.status == 0
        assert "the cluster has ended" in done.output
        assert_nothing_is_left(cluster, sockets)


async def test_kill_9_of_the_supervisor_leaves_no_orphan_and_a_new_up_serves(
    tmp_path: Path, shared_memory: None
) -> None:
    cluster = write_cluster(tmp_path, ALL_ROLES)
    with running(cluster):
        sockets = cluster.state.sockets
        killed = cluster.kill("supervisor")
        await cluster.until(lambda: not list(marked_with(cluster.run)), "every process has died with the supervisor")
        assert not killed.alive
        with running(cluster):
            async with Client(cluster.address) as client:
                await next_job_runs(client)
            done = await omniflow("down", str(cluster.file), folder=tmp_path)
            assert done.status == 0
            assert_nothing_is_left(cluster, sockets)
