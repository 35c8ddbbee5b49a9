"""Rule 17 as on two machines: a second scheduler that only etcd and an encrypted link join to the first one's."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.registry import EmbeddedEtcd
from omniflow.v1.cluster_pb2 import ClusterStatus, StandbyStatus
from tests.cluster_fixtures.certificates import TLS, make_certificates
from tests.cluster_fixtures.cluster import PuppetCluster, running, write_cluster
from tests.cluster_fixtures.ports import free_port
from tests.cluster_fixtures.stage import open_stage
from tests.cluster_fixtures.submit import next_job_runs

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")

HOST = "127.0.0.1"
# Nobody is dead here but who is killed, however busy the machine.
LIMITS = {"heartbeat_limit_s": 20.0, "reconnect_s": 10.0, "client_grace_s": 20.0, "max_deadline_s": 60.0}


def _first(folder: Path, etcd: str) -> PuppetCluster:
    names = {"one": "first", "two": "second", "three": "third"}
    workers = [{"name": name, "roles": [role], "listen": [f"tcp:{HOST}:0"]} for name, role in names.items()]
    scheduler = {
        "listen": f"{HOST}:{free_port(HOST)}",
        "journal_listen": f"tcp:{HOST}:{free_port(HOST)}",
        "limits": LIMITS,
        "drain_timeout_s": 5,
    }
    # Its machine is away for longer than the other one needs.
    restart = {"first_delay_s": 2, "max_delay_s": 2}
    return write_cluster(
        folder, workers, etcd={"endpoints": [etcd]}, scheduler=scheduler, restart=restart, tls=TLS, start_timeout_s=60
    )


@contextmanager
def _second(folder: Path, etcd: str, address: str) -> Iterator[None]:
    tls = {key: str(folder / file) for key, file in TLS.items()}
    settings: dict[str, Any] = {
        "cluster": "puppets",
        "name": "head-2",
        "etcd": [etcd],
        "listen": address,
        "journal": str(folder / "elsewhere"),
        "journal_listen": f"tcp:{HOST}:{free_port(HOST)}",
        "tls": tls,
        **LIMITS,
    }
    file = folder / "head-2.json"
    file.write_text(json.dumps(settings))
    with (folder / "head-2.log").open("wb") as log:
        command = [sys.executable, "-m", "omniflow_scheduler", "--config", str(file)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _in_sync(name: str) -> Any:
    def holds(status: ClusterStatus) -> bool:
        return (status.standby.name, status.standby.state) == (name, StandbyStatus.IN_SYNC)

    return holds


async def test_rule_17_the_loss_of_the_leaders_journal_loses_no_job_and_it_comes_back_as_the_standby(
    tmp_path: Path,
) -> None:
    make_certificates(tmp_path)
    address = f"{HOST}:{free_port(HOST)}"
    with (
        EmbeddedEtcd.start(tmp_path / "etcd") as etcd,
        running(_first(tmp_path, etcd.endpoint)) as cluster,
        _second(tmp_path, etcd.endpoint, address),
    ):
        async with (
            open_stage(cluster.stage) as stage,
            Client(f"{cluster.address},{address}", connect_timeout=20) as client,
        ):
            await cluster.until_settled(client)
            await cluster.until_status(client, _in_sync("head-2"), "the second one is in sync")
            done = await client.submit("chain", {"text": "done"}, idempotency_key="done")
            await done.result()
            job = await client.submit("held", {"text": "x"})
            act = await stage.act()
            cluster.kill("scheduler")
            shutil.rmtree(cluster.run / "journal")
            await client.cluster_status()
            assert client.address == address
            act.go_on()
            assert await job.result() == {"result": "x"}
            assert stage.quiet, "nothing ran twice"
            again = await client.submit("chain", {"text": "done"}, idempotency_key="done")
            assert (again.id, again.existed) == (done.id, True)
            await cluster.until_status(client, _in_sync("scheduler"), "the first one is back, in sync")
            await next_job_runs(client)
