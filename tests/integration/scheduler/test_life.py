"""How the scheduler's process starts, leads, and ends."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from omniflow.client import Client
from omniflow.errors import Unavailable
from omniflow.registry import EmbeddedEtcd, Leader, Registry
from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.keys import Keys
from omniflow_scheduler.errors import ExitCode
from tests.cluster_fixtures.ports import free_port
from tests.integration.scheduler.conftest import (
    SchedulerRun,
    one_node_flow,
    running_scheduler,
    spawn,
    write_settings,
)


def run_to_its_end(settings: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "omniflow_scheduler", "--config", str(settings)]
    return subprocess.run(command, capture_output=True, text=True, timeout=25)


def test_a_mistake_in_its_file_is_named(tmp_path: Path) -> None:
    ended = run_to_its_end(write_settings(tmp_path, "127.0.0.1:2379", "c", quene_limit=3))
    assert ended.returncode == ExitCode.BAD_CONFIG
    assert "quene_limit" in ended.stderr


def test_a_port_in_use_is_named_before_anything_else(tmp_path: Path, etcd: EmbeddedEtcd) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ended = run_to_its_end(write_settings(tmp_path, etcd.endpoint, "c", listen=address))
    assert ended.returncode == ExitCode.PORT_IN_USE
    assert address in ended.stderr


def test_an_etcd_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = run_to_its_end(write_settings(tmp_path, "127.0.0.1:9", "c", start_timeout_s=2))
    assert ended.returncode == ExitCode.REGISTRY_UNREACHABLE
    assert "127.0.0.1:9" in ended.stderr


def test_an_unknown_policy_is_named(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str) -> None:
    ended = run_to_its_end(write_settings(tmp_path, etcd.endpoint, cluster, policy="fastest"))
    assert ended.returncode == ExitCode.FAILED
    assert "fastest" in ended.stderr


async def test_sigterm_ends_it_in_order_and_it_no_longer_leads(
    scheduler: SchedulerRun, etcd: EmbeddedEtcd, cluster: str
) -> None:
    async with Registry(etcd.endpoint, cluster) as registry:
        leader = await registry.wait_leader(5)
        assert leader.address == scheduler.address
        assert await asyncio.to_thread(scheduler.terminate) == ExitCode.DRAINED
        assert await registry.leader() is None


async def test_a_successor_of_a_killed_one_leads_at_once_with_a_higher_term_and_knows_the_flows(
    scheduler: SchedulerRun, etcd: EmbeddedEtcd, cluster: str, tmp_path: Path
) -> None:
    async with Client(scheduler.address) as client:
        version = await client.register_flow(one_node_flow())
        term = (await client.cluster_status()).term
    scheduler.kill()
    with running_scheduler(tmp_path, etcd.endpoint, cluster, listen=scheduler.address) as successor:
        async with Client(etcd=etcd.endpoint, cluster=cluster) as client:
            assert (await client.cluster_status()).term > term
            assert [flow.version for flow in await client.flows()] == [version]
        assert successor.terminate() == ExitCode.DRAINED


async def test_one_with_a_higher_term_ends_it(scheduler: SchedulerRun, etcd: EmbeddedEtcd, cluster: str) -> None:
    operator = BlockingEtcd([etcd.endpoint], 5.0)
    other = Leader("127.0.0.1:1", term=10**9, host="elsewhere")
    operator.put(Keys(cluster).leader, other.encode(), lease=0)
    operator.close()
    assert await asyncio.to_thread(scheduler.process.wait, 20) == ExitCode.DRAINED
    assert "another scheduler leads" in scheduler.log.read_text()


async def test_it_outlives_etcd_and_finds_it_again(tmp_path: Path) -> None:
    with (
        EmbeddedEtcd.start(tmp_path / "data") as etcd,
        running_scheduler(tmp_path, etcd.endpoint, "c", registration_ttl_s=4) as scheduler,
    ):
        async with Client(scheduler.address) as client:
            term = (await client.cluster_status()).term
            etcd.stop()
            await until_reachable(client, False)
            settings = etcd.settings
            with EmbeddedEtcd.start(settings.data_dir, client_port=settings.client_port, peer_port=settings.peer_port):
                await until_reachable(client, True)
                assert (await client.cluster_status()).term == term
                assert await client.register_flow(one_node_flow())
                assert scheduler.process.poll() is None


async def until_reachable(client: Client, reachable: bool) -> None:
    async with asyncio.timeout(40):
        while (await client.cluster_status()).registry_reachable != reachable:  # noqa: ASYNC110 - a status is asked for
            await asyncio.sleep(0.05)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the disk that is always full")
async def test_a_full_disk_under_its_log_takes_nothing_down(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str) -> None:
    listen = f"127.0.0.1:{free_port()}"
    settings = write_settings(tmp_path, etcd.endpoint, cluster, listen=listen, log_level="debug")
    process = spawn(settings, Path("/dev/full"))
    try:
        async with Client(etcd=etcd.endpoint, cluster=cluster) as client:
            assert (await client.cluster_status()).cluster == cluster
            process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 15) == ExitCode.DRAINED
    finally:
        process.kill()
        process.wait()


async def test_a_flow_that_no_successor_would_know_is_not_taken(tmp_path: Path) -> None:
    with (
        EmbeddedEtcd.start(tmp_path / "data") as etcd,
        running_scheduler(tmp_path, etcd.endpoint, "c") as scheduler,
    ):
        async with Client(scheduler.address) as client:
            etcd.stop()
            with pytest.raises(Unavailable):
                await client.register_flow(one_node_flow())
            assert await client.flows() == ()
