"""A watch follows what is there through restarts and compactions: nothing is missed, nothing is told twice."""

import asyncio
from collections.abc import AsyncIterator

from aetcd import rpc

from omniflow.registry import EmbeddedEtcd, Gone, Put, Registry, Watch
from omniflow.registry.blocking import BlockingEtcd
from omniflow.registry.keys import Keys
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.flow_pb2 import Flow
from tests.integration.registry.conftest import restarted, worker_info

Events = AsyncIterator[Put[WorkerInfo] | Gone[WorkerInfo]]


def put(operator: BlockingEtcd, cluster: str, name: str, incarnation: str = "1") -> None:
    operator.put(Keys(cluster).worker(name), worker_info(name, incarnation).SerializeToString(), lease=0)


def delete(operator: BlockingEtcd, cluster: str, name: str) -> None:
    request = rpc.DeleteRangeRequest(key=Keys(cluster).worker(name).encode())
    operator._call("deleting", lambda channel: rpc.KVStub(channel).DeleteRange, request)


def compact(operator: BlockingEtcd) -> None:
    revision = operator._call("reading", lambda c: rpc.KVStub(c).Range, rpc.RangeRequest(key=b"-")).header.revision
    operator._call("compacting", lambda c: rpc.KVStub(c).Compact, rpc.CompactionRequest(revision=revision))


async def following(events: Events, count: int) -> list[str]:
    """The next events, as "+name incarnation" and "-name incarnation"."""
    seen = []
    async with asyncio.timeout(40):
        for _ in range(count):
            event = await anext(events)
            seen.append(
                f"+{event.name} {event.value.incarnation}"
                if isinstance(event, Put)
                else f"-{event.name} {event.last.incarnation}"
            )
    return seen


async def test_what_is_there_comes_first_then_every_change_in_order(
    shared_etcd: str, cluster: str, operator: BlockingEtcd
) -> None:
    put(operator, cluster, "a")
    async with Registry(shared_etcd, cluster) as registry:
        events = aiter(registry.watch_workers())
        assert await following(events, 1) == ["+a 1"]
        put(operator, cluster, "b")
        put(operator, cluster, "a", "2")
        delete(operator, cluster, "b")
        assert await following(events, 3) == ["+b 1", "+a 2", "-b 1"]


async def test_after_a_compaction_it_lists_again_and_tells_the_difference(
    shared_etcd: str, cluster: str, operator: BlockingEtcd
) -> None:
    for name in ("gone", "kept", "changed"):
        put(operator, cluster, name)
    async with Registry(shared_etcd, cluster) as registry:
        events = aiter(registry.watch_workers())
        # It has listed, and has not begun to watch from there: the revision that it will ask for is compacted away.
        assert await following(events, 3) == ["+gone 1", "+kept 1", "+changed 1"]
        delete(operator, cluster, "gone")
        put(operator, cluster, "changed", "2")
        put(operator, cluster, "new")
        compact(operator)
        assert sorted(await following(events, 3)) == ["+changed 2", "+new 1", "-gone 1"]
        put(operator, cluster, "later")
        assert await following(events, 1) == ["+later 1"]


async def test_it_goes_on_where_it_was_when_etcd_was_restarted(own_etcd: EmbeddedEtcd) -> None:
    operator = BlockingEtcd([own_etcd.endpoint], 5.0)
    put(operator, "c", "a")
    async with Registry(own_etcd.endpoint, "c") as registry:
        watch: Watch[WorkerInfo] = registry.watch_workers()
        events = aiter(watch)
        assert await following(events, 1) == ["+a 1"]
        nexts = asyncio.ensure_future(following(events, 1))
        await asyncio.sleep(0)
        assert watch.reachable
        own_etcd.stop()
        async with asyncio.timeout(40):
            while watch.reachable:  # a flag has no event to wait for  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        with restarted(own_etcd):
            put(operator, "c", "b")
            assert await nexts == ["+b 1"]
            assert watch.reachable
            assert sorted(watch.view) == ["a", "b"]
    operator.close()


async def test_an_entry_that_cannot_be_read_does_not_stop_it(
    shared_etcd: str, cluster: str, operator: BlockingEtcd
) -> None:
    operator.put(Keys(cluster).worker("broken"), b"\xff\xff\xff", lease=0)
    put(operator, cluster, "whole")
    async with Registry(shared_etcd, cluster) as registry:
        assert await following(aiter(registry.watch_workers()), 1) == ["+whole 1"]


async def test_flows_are_kept_by_name_and_version(shared_etcd: str, cluster: str) -> None:
    async with Registry(shared_etcd, cluster) as registry:
        new, old = Flow(name="speak", version=b"\x01"), Flow(name="speak", version=b"\x02")
        assert await registry.put_flow(old) is False
        assert await registry.put_flow(new) is False
        assert await registry.put_flow(new) is True
        assert [flow.version for flow in await registry.flows()] == [b"\x02", b"\x01"]
        async with asyncio.timeout(40):
            event = await anext(aiter(registry.watch_flows()))
        assert event.name == "speak/02"
