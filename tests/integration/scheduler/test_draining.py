"""SIGTERM lets running jobs end and takes no new ones; a second one, or lost patience, ends them with an error."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from omniflow.client import Client, Job
from omniflow.errors import Unavailable
from omniflow.registry import EmbeddedEtcd, Registration, this_host
from omniflow.v1.cluster_pb2 import MethodInfo, RoleInfo, WorkerInfo
from omniflow_scheduler.errors import ExitCode
from tests.cluster_fixtures.ports import free_port
from tests.integration.scheduler.conftest import (
    SchedulerRun,
    one_node_flow,
    running_scheduler,
    spawn,
    text_port,
    wait_serving,
    write_settings,
)


@pytest.fixture
def absent_worker(etcd: EmbeddedEtcd, cluster: str) -> Iterator[None]:
    """A role that is known and cannot be reached: jobs for it are accepted, and wait."""
    method = MethodInfo(name="say", inputs=[text_port("text")], outputs=[text_port("said")])
    info = WorkerInfo(
        name="absent",
        incarnation="1",
        roles=[RoleInfo(name="loud", methods=[method], concurrency=1)],
        addresses=["tcp:127.0.0.1:9"],
        host=this_host(),
        pid=os.getpid(),
    )
    with Registration(etcd.endpoint, cluster, info):
        yield


@pytest.fixture
def impatient(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str, absent_worker: None) -> Iterator[SchedulerRun]:
    """A scheduler that drains for a second."""
    with running_scheduler(tmp_path, etcd.endpoint, cluster, drain_timeout_s=1) as running:
        yield running


@pytest.fixture
def patient(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str, absent_worker: None) -> Iterator[SchedulerRun]:
    """A scheduler that drains for as long as it takes."""
    with running_scheduler(tmp_path, etcd.endpoint, cluster, drain_timeout_s=600) as running:
        yield running


async def waiting_job(client: Client) -> Job:
    await client.register_flow(one_node_flow())
    return await client.submit("shout", {"text": "x"})


async def not_serving(address: str) -> None:
    """Returns when health says so."""
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(40):
        async for answer in health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest()):
            if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                return


async def test_while_it_drains_health_says_so_and_new_jobs_are_refused(patient: SchedulerRun) -> None:
    async with Client(patient.address) as client:
        job = await waiting_job(client)
        patient.process.send_signal(signal.SIGTERM)
        await not_serving(patient.address)
        with pytest.raises(Unavailable):
            await client.submit("shout", {"text": "x"})
        assert patient.process.poll() is None
        assert not job.done
        await job.cancel("enough")
        assert await asyncio.to_thread(patient.process.wait, 10) == ExitCode.DRAINED


async def test_a_second_signal_ends_it_at_once(patient: SchedulerRun) -> None:
    async with Client(patient.address) as client:
        await waiting_job(client)
        patient.process.send_signal(signal.SIGTERM)
        await not_serving(patient.address)
        patient.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(patient.process.wait, 10) == ExitCode.STOPPED_AT_ONCE


async def test_jobs_that_do_not_end_in_time_are_told_so(impatient: SchedulerRun) -> None:
    async with Client(impatient.address) as client:
        job = await waiting_job(client)
        impatient.process.send_signal(signal.SIGTERM)
        with pytest.raises(Unavailable, match="shut down") as raised:
            await job.result()
        assert raised.value.retry_after > 0
        assert await asyncio.to_thread(impatient.process.wait, 10) == ExitCode.DRAINED


async def test_a_standby_serves_when_the_leader_has_left(
    scheduler: SchedulerRun, etcd: EmbeddedEtcd, cluster: str, tmp_path: Path
) -> None:
    async with Client(scheduler.address) as client:
        term = (await client.cluster_status()).term
    log = tmp_path / "standby.log"
    listen = f"127.0.0.1:{free_port()}"
    standby = spawn(write_settings(tmp_path, etcd.endpoint, cluster, listen=listen), log)
    try:
        async with asyncio.timeout(40):
            while "standing by" not in log.read_text():  # its log is all that it says  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(scheduler.terminate) == ExitCode.DRAINED
        await asyncio.to_thread(wait_serving, listen, log)
        async with Client(etcd=etcd.endpoint, cluster=cluster) as client:
            assert (await client.cluster_status()).term > term
    finally:
        standby.kill()
        standby.wait()
