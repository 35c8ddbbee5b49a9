"""The scheduler asks workers where their memory is: one that hangs, or is gone, is named and hides no other."""

import asyncio
import secrets
import socket

import pytest

from omniflow.data import Framed
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.data_pb2 import DataReply, DataRequest, DataWelcome, MemoryAccount
from omniflow_scheduler import memory
from omniflow_scheduler.memory import memory_of


def listener() -> tuple[str, socket.socket]:
    """A data service's address, and who listens there."""
    name = f"omniflow-test/{secrets.token_hex(8)}"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(f"\0{name}")
    listening.listen()
    return f"unix:@{name}", listening


def answer_once(listening: socket.socket) -> None:
    end = Framed(listening.accept()[0])
    hello = DataRequest.FromString(end.receive(20.0))
    welcome = DataWelcome(name=hello.hello.to)
    end.send(DataReply(id=hello.id, welcome=welcome).SerializeToString(), 20.0)
    asked = DataRequest.FromString(end.receive(20.0))
    end.send(DataReply(id=asked.id, account=MemoryAccount(worker=hello.hello.to)).SerializeToString(), 20.0)
    end.close()


async def test_who_hangs_or_is_gone_is_named_and_the_others_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than a busy machine takes to answer.
    monkeypatch.setattr(memory, "PATIENCE_S", 8.0)
    monkeypatch.setattr(memory, "AT_MOST_S", 20.0)
    (speaks, speaking), (hangs, hanging) = listener(), listener()
    workers = [
        WorkerInfo(name="speaks", data_addresses=[speaks]),
        WorkerInfo(name="hangs", data_addresses=[hangs]),
        WorkerInfo(name="gone", data_addresses=["unix:@omniflow-test/nobody"]),
    ]
    with speaking, hanging:
        answered = asyncio.create_task(asyncio.to_thread(answer_once, speaking))
        found = {each.worker: each for each in (await memory_of(workers, "test", None)).workers}
        await answered
    assert list(found) == ["gone", "hangs", "speaks"]
    assert found["speaks"].account.worker == "speaks"
    assert [found[name].HasField("account") for name in ("gone", "hangs")] == [False, False]
    assert all(found[name].silent for name in ("gone", "hangs"))


async def test_who_shares_no_pages_is_named_and_not_asked() -> None:
    workers = [WorkerInfo(name="writes"), WorkerInfo(name="hears")]
    found = (await memory_of(workers, "test", None)).workers
    assert [(each.worker, each.HasField("account"), each.silent) for each in found] == [
        ("hears", False, ""),
        ("writes", False, ""),
    ]


async def test_a_cluster_without_workers_has_no_memory() -> None:
    assert list((await memory_of([], "test", None)).workers) == []
