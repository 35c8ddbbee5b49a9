"""A real scheduler process over a real etcd."""

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from omniflow.registry import EmbeddedEtcd
from omniflow.v1.flow_pb2 import Alternative, Edge, End, Flow, Node, Port
from omniflow.v1.value_pb2 import KIND_TEXT, Type
from tests.cluster_fixtures.ports import free_port

READY_WITHIN = 60.0


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    with EmbeddedEtcd.start(tmp_path_factory.mktemp("etcd") / "data") as running:
        yield running


@pytest.fixture
def cluster() -> str:
    """A name of its own for each test, so that they share an etcd without meeting."""
    return f"test-{uuid.uuid4().hex[:8]}"


@dataclass
class SchedulerRun:
    """A scheduler's process."""

    process: "subprocess.Popen[bytes]"
    address: str
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def write_settings(folder: Path, endpoint: str, cluster: str, **more: Any) -> Path:
    file = folder / f"scheduler-{uuid.uuid4().hex[:6]}.json"
    file.write_text(json.dumps({"cluster": cluster, "etcd": [endpoint], "listen": "127.0.0.1:0", **more}))
    return file


def spawn(settings: Path, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "omniflow_scheduler", "--config", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


@contextmanager
def running_scheduler(folder: Path, endpoint: str, cluster: str, **more: Any) -> Iterator[SchedulerRun]:
    """Serving, and gone at the end."""
    listen = more.pop("listen", None) or f"127.0.0.1:{free_port()}"
    log = folder / "scheduler.log"
    process = spawn(write_settings(folder, endpoint, cluster, listen=listen, **more), log)
    try:
        wait_serving(listen, log)
        yield SchedulerRun(process, listen, log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path: Path, etcd: EmbeddedEtcd, cluster: str) -> Iterator[SchedulerRun]:
    with running_scheduler(tmp_path, etcd.endpoint, cluster) as running:
        yield running


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, etcd: EmbeddedEtcd) -> Iterator[SchedulerRun]:
    """One for all tests that leave it as it is: without flows and workers, in the cluster "shared"."""
    with running_scheduler(tmp_path_factory.mktemp("shared"), etcd.endpoint, "shared") as running:
        yield running


def wait_serving(address: str, log: Path) -> None:
    with grpc.insecure_channel(address, options=(("grpc.max_reconnect_backoff_ms", 200),)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=READY_WITHIN, wait_for_ready=True)
        except grpc.RpcError as error:
            raise AssertionError(f"no scheduler at {address}: {error}\n{log.read_text()}") from None
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def text_port(name: str) -> Port:
    return Port(name=name, type=Type(kind=KIND_TEXT), parameter=name)


def one_node_flow(name: str = "shout", role: str = "loud") -> Flow:
    """`text` through one method of one role to `result`."""
    node = Node(
        name=f"{role}.say",
        role=role,
        method="say",
        inputs=[text_port("text")],
        outputs=[text_port("said")],
        trigger=[Alternative(ports=[0])],
    )
    into = Edge(to=End(place=End.NODE), type=Type(kind=KIND_TEXT))
    getattr(into, "from").CopyFrom(End(place=End.INPUT))
    out = Edge(to=End(place=End.RESULT), type=Type(kind=KIND_TEXT))
    getattr(out, "from").CopyFrom(End(place=End.NODE))
    return Flow(name=name, inputs=[text_port("text")], nodes=[node], edges=[into, out], results=[text_port("result")])
