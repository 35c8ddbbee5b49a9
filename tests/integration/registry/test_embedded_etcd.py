"""The embedded etcd: starts by health, keeps its data, ends cleanly, and says what is in its way."""

import socket
from pathlib import Path

import psutil
import pytest

from omniflow.registry import EmbeddedEtcd, EtcdFailed, PortTaken, Registry
from omniflow.v1.flow_pb2 import Flow
from tests.integration.registry.conftest import restarted


async def test_it_answers_once_started_and_keeps_its_data_over_a_restart(own_etcd: EmbeddedEtcd) -> None:
    async with Registry(own_etcd.endpoint, "c") as registry:
        assert await registry.put_flow(Flow(name="speak", version=b"\x01")) is False
    own_etcd.stop()
    with restarted(own_etcd) as again:
        async with Registry(again.endpoint, "c") as registry:
            assert [flow.name for flow in await registry.flows()] == ["speak"]


def test_it_listens_on_loopback_alone_and_leaves_no_process(own_etcd: EmbeddedEtcd) -> None:
    process = psutil.Process(own_etcd.process.pid)
    listening = {c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    own_etcd.stop()
    assert not psutil.pid_exists(process.pid)


def test_a_port_in_use_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            EmbeddedEtcd.start(tmp_path / "data", client_port=port)
    assert not (tmp_path / "data").exists()


def test_a_folder_that_it_cannot_use_is_an_error_with_the_words_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "member").write_text("in the way")
    with pytest.raises(EtcdFailed, match="ended with status") as raised:
        EmbeddedEtcd.start(tmp_path / "data")
    assert raised.value.cause
    assert "etcd.log" in raised.value.cure
