"""A worker stays registered for as long as it lives, and no longer."""

import asyncio
import subprocess
import sys
import time

import pytest

from omniflow.errors import OmniFlowError
from omniflow.registry import EmbeddedEtcd, NameTaken, Put, Registration, Registry, RegistryUnreachable
from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.held_key import HeldKey, KeyState
from omniflow.registry.keys import Keys
from omniflow.registry.requests import Created, KeyValue
from tests.integration.registry.conftest import TTL, restarted, worker_info

A_REGISTERED_WORKER = """
import os, sys
from omniflow.registry import Registration, this_host
from omniflow.v1.cluster_pb2 import WorkerInfo
info = WorkerInfo(name=sys.argv[3], incarnation="first", pid=os.getpid(), host=sys.argv[5] or this_host())
Registration(sys.argv[1], sys.argv[2], info, ttl=float(sys.argv[4])).start()
print("registered", flush=True)
sys.stdin.read()
"""

# Whatever is quicker has not waited for the end of a lease, however busy the machine.
LONG_TTL = 40.0
PATIENCE_S = 30.0


async def names(endpoint: str, cluster: str) -> list[str]:
    async with Registry(endpoint, cluster) as registry:
        return sorted(await registry.workers())


async def test_a_worker_is_registered_from_start_to_close(shared_etcd: str, cluster: str) -> None:
    registration = Registration(shared_etcd, cluster, worker_info("llm-0"), ttl=TTL)
    await asyncio.to_thread(registration.start)
    assert registration.registered
    assert await names(shared_etcd, cluster) == ["llm-0"]
    await asyncio.to_thread(registration.close)
    assert await names(shared_etcd, cluster) == []


async def test_a_blocked_event_loop_does_not_lose_the_registration(shared_etcd: str, cluster: str) -> None:
    async with Registry(shared_etcd, cluster) as registry:
        with Registration(shared_etcd, cluster, worker_info("llm-0"), ttl=TTL):
            before = await registry.workers()
            time.sleep(1.6 * TTL)  # noqa: ASYNC251 - the blocked loop is what is tested
            assert await registry.workers() == before


async def test_a_lost_lease_is_registered_again(shared_etcd: str, cluster: str, operator: BlockingEtcd) -> None:
    key = Keys(cluster).worker("llm-0")
    with Registration(shared_etcd, cluster, worker_info("llm-0"), ttl=TTL):
        held = operator.get(key)
        assert held is not None
        operator.revoke(held.lease)  # which deletes the key, until its keeper looks
        async with Registry(shared_etcd, cluster) as registry, asyncio.timeout(PATIENCE_S):
            async for event in registry.watch_workers():
                assert isinstance(event, Put)
                assert event.name == "llm-0"
                break
        again = operator.get(key)
        assert again is not None
        assert again.lease != held.lease


async def test_changed_information_is_registered(shared_etcd: str, cluster: str) -> None:
    with Registration(shared_etcd, cluster, worker_info("llm-0"), ttl=TTL) as registration:
        changed = worker_info("llm-0")
        changed.device = "cuda:0"
        async with Registry(shared_etcd, cluster) as registry, asyncio.timeout(40):
            async for event in registry.watch_workers():
                assert isinstance(event, Put)
                if event.value.device == "cuda:0":
                    break
                registration.update(changed)


def test_two_workers_of_one_name_the_second_is_told_who_holds_it(shared_etcd: str, cluster: str) -> None:
    with Registration(shared_etcd, cluster, worker_info("llm-0", "first"), ttl=TTL) as first:
        second = Registration(shared_etcd, cluster, worker_info("llm-0", "second"), ttl=TTL)
        with pytest.raises(NameTaken, match=r"llm-0.*first") as raised:
            second.start()
        assert isinstance(raised.value, OmniFlowError)
        assert first.registered
        assert not second.registered


def start_worker(endpoint: str, cluster: str, name: str, *, ttl: float, host: str = "") -> "subprocess.Popen[str]":
    worker = subprocess.Popen(
        [sys.executable, "-c", A_REGISTERED_WORKER, endpoint, cluster, name, str(ttl), host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "registered\n"
    return worker


def test_a_worker_killed_on_this_host_is_replaced_at_once(shared_etcd: str, cluster: str) -> None:
    worker = start_worker(shared_etcd, cluster, "llm-0", ttl=LONG_TTL)
    worker.kill()
    worker.communicate()
    started = time.monotonic()
    with Registration(shared_etcd, cluster, worker_info("llm-0", "second"), ttl=TTL):
        assert time.monotonic() - started < LONG_TTL / 2


def test_a_worker_killed_on_another_host_is_replaced_when_its_lease_ends(shared_etcd: str, cluster: str) -> None:
    worker = start_worker(shared_etcd, cluster, "llm-0", ttl=TTL, host="elsewhere")
    worker.kill()
    worker.communicate()
    with Registration(shared_etcd, cluster, worker_info("llm-0", "second"), ttl=TTL) as second:
        assert second.registered


def test_it_outlives_a_restart_of_etcd(own_etcd: EmbeddedEtcd) -> None:
    with Registration(own_etcd.endpoint, "c", worker_info("llm-0"), ttl=TTL) as registration:
        own_etcd.stop()
        with registration._key.changed:
            assert registration._key.changed.wait_for(lambda: not registration.reachable, PATIENCE_S)
        with restarted(own_etcd):
            with registration._key.changed:
                assert registration._key.changed.wait_for(lambda: registration.reachable, PATIENCE_S)
            assert registration.wait_registered(PATIENCE_S)


def test_without_etcd_the_error_names_the_endpoint_and_the_cure() -> None:
    registration = Registration("127.0.0.1:9", "c", worker_info("llm-0"), ttl=TTL)
    started = time.monotonic()
    with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:9") as raised:
        registration.start(timeout=1.0)
    assert time.monotonic() - started < 10
    assert "omniflow up" in raised.value.cure


class _Stumbling:
    """A claim whose value cannot be made at first."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.asked = 0

    def value(self) -> bytes:
        self.asked += 1
        if self.asked == 1:
            raise KeyError("a defect")
        return b"value"

    def create(self, etcd: BlockingEtcd, lease: int) -> Created:
        return etcd.create_if_absent(self.key, self.value(), lease)

    def is_mine(self, value: bytes) -> bool:
        return False

    def is_dead(self, value: bytes) -> bool:
        return False

    def held(self, etcd: BlockingEtcd, revision: int) -> bool:
        return True

    def taken(self, holder: KeyValue) -> bool:
        return True


def test_a_defect_does_not_end_a_keep_alive_in_silence(
    shared_etcd: str, cluster: str, operator: BlockingEtcd, caplog: pytest.LogCaptureFixture
) -> None:
    claim = _Stumbling(Keys(cluster).worker("llm-0"))
    held = HeldKey([shared_etcd], claim, TTL)
    held.start()
    try:
        with held.changed:
            assert held.changed.wait_for(lambda: held.state is KeyState.HELD, PATIENCE_S)
        assert operator.get(claim.key) is not None
    finally:
        held.close()
    assert "a defect" in caplog.text
