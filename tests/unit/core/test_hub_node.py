"""The scheduler's and the workers' data paths together, over real sockets in one process: what the edges rely on."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from omniflow.v1 import cluster_pb2 as c
from omniflow.v1 import flow_pb2 as f
from omniflow.v1 import job_pb2 as j
from omniflow.v1 import value_pb2 as v
from omniflow_core import Activation, Closed, FlowInvalid, Hub, InvalidArgument, Node, UnknownWorker, WireError

CLUSTER: Final = "test"
ROLES: Final = ("first", "second", "third")


def text(value: str) -> bytes:
    return v.Value(text=value).SerializeToString()


def chain() -> f.Flow:
    """`said` goes through the three roles and comes out as `heard`."""
    kind = v.Type(kind=v.KIND_TEXT)
    flow = f.Flow(name="chain")
    flow.inputs.add(name="said", type=kind, parameter="said")
    flow.results.add(name="heard", type=kind)
    before = f.End(place=f.End.INPUT)
    for index, role in enumerate(ROLES):
        node = flow.nodes.add(name=f"{role}.pass_on", role=role, method="pass_on")
        node.inputs.add(name="said", type=kind, parameter="said")
        node.outputs.add(name="out", type=kind)
        node.trigger.add(ports=[0])
        flow.edges.add(**{"from": before}, to=f.End(place=f.End.NODE, node=index), type=kind)
        before = f.End(place=f.End.NODE, node=index)
    flow.edges.add(**{"from": before}, to=f.End(place=f.End.RESULT), type=kind)
    return flow


def pass_on(activation: Activation) -> None:
    said = activation.value("said")
    assert said is not None
    # In one word: a job whose last result has come waits only so long for the reports of its nodes.
    activation.finish({"bytes": float(len(said))}, [("out", bytes(said))])


class Worker:
    """One node and a thread that runs its role."""

    def __init__(self, name: str, role: str, folder: Path) -> None:
        info = c.WorkerInfo(name=name, incarnation=f"{name}-1")
        info.roles.add(name=role, concurrency=1).methods.add(name="pass_on")
        self.node = Node(info.SerializeToString(), [f"unix:{folder / name}"], cluster=CLUSTER)
        info.addresses.extend(self.node.addresses)
        self.info = info
        self._ready = self.node.ready(role)
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                for activation in self._ready.take(16, 5.0):
                    pass_on(activation)
        except Closed:
            return

    def stop(self) -> None:
        self.node.close()
        self._thread.join()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(cluster=CLUSTER, term=1)
    workers = [Worker(f"{role}-0", role, tmp_path) for role in ROLES]
    for worker in workers:
        hub.worker_seen(worker.info.SerializeToString())
    hub.put_flow(chain().SerializeToString())
    yield hub
    hub.close(0)
    for worker in workers:
        worker.stop()


def submit(said: str, tag: int) -> bytes:
    batch = j.ClientBatch()
    request = batch.messages.add(tag=tag).submit
    request.flow = "chain"
    request.inputs.add(name="said", frames=[text(said)])
    return batch.SerializeToString()


async def events(hub: Hub, client: int, ends: int) -> list[j.JobEvent]:
    """What the client is told until so many of its jobs have ended; waits as the scheduler's event loop does."""
    loop, ready, seen = asyncio.get_running_loop(), asyncio.Event(), list[j.JobEvent]()
    loop.add_reader(hub.fileno(), lambda: ready.set() if client in hub.ready_clients() else None)
    try:
        async with asyncio.timeout(20):
            while sum(event.HasField("ended") for event in seen) < ends:
                await ready.wait()
                ready.clear()
                while batch := hub.take(client, 64 * 1024):
                    seen.extend(j.EventBatch.FromString(batch).events)
    finally:
        loop.remove_reader(hub.fileno())
    return seen


async def whole_reports(hub: Hub, count: int) -> list[j.Report]:
    """Of the ended jobs, once every worker has said what it did: a link that is late may say so after a job's end."""
    request = j.ListRequest(ended=True, limit=count).SerializeToString()
    jobs = [each.job for each in j.ListResponse.FromString(hub.list_jobs(request)).jobs]
    async with asyncio.timeout(20):
        while True:  # nobody tells of it
            reports = [j.JobStatus.FromString(hub.job_status(job) or b"").report for job in jobs]
            if all(a.state == j.NodeProgress.DONE for report in reports for a in report.activations):
                return reports
            await asyncio.sleep(0.01)


async def test_jobs_pass_through_three_workers_and_come_back_with_a_report(hub: Hub) -> None:
    client = hub.open_client()
    for tag in range(50):
        hub.send(client, submit(f"word {tag}", tag))
    seen = await events(hub, client, 50)
    heard = {event.tag: v.Value.FromString(event.frame.payload).text for event in seen if event.HasField("frame")}
    assert heard == {tag: f"word {tag}" for tag in range(50)}
    for ended in (event.ended for event in seen if event.HasField("ended")):
        assert not ended.HasField("error"), ended.error
        assert [a.node for a in ended.report.activations] == [f"{role}.pass_on" for role in ROLES]
    reports = await whole_reports(hub, 50)
    assert len(reports) == 50
    for report in reports:
        assert [a.features["bytes"] > 0 for a in report.activations] == [True] * len(ROLES)
    status = c.ClusterStatus.FromString(hub.cluster_status())
    assert (status.jobs_succeeded, status.jobs_running) == (50, 0)
    assert [worker.outstanding for worker in status.workers] == [0, 0, 0]
    newest = j.ListResponse.FromString(hub.list_jobs(j.ListRequest(ended=True, limit=1).SerializeToString())).jobs[0]
    again = hub.job_status(newest.job)
    assert again is not None
    assert j.JobStatus.FromString(again).state == j.JobStatus.SUCCEEDED


def test_mistakes_of_the_caller_are_typed_exceptions(hub: Hub) -> None:
    with pytest.raises(InvalidArgument, match="least-outstanding, round-robin"):
        Hub(cluster=CLUSTER, term=1, policy="luck")
    with pytest.raises(WireError, match="ClientBatch"):
        hub.send(hub.open_client(), b"\xff\xff")
    with pytest.raises(UnknownWorker, match="first-0"):
        hub.drain_worker("fourth-0")
    with pytest.raises(FlowInvalid) as invalid:
        hub.put_flow(f.Flow(name="empty").SerializeToString())
    assert invalid.value.problems
    assert hub.job_status("no such job") is None


def test_the_same_flow_again_is_known_and_keeps_its_version(hub: Hub) -> None:
    version, existed = hub.put_flow(chain().SerializeToString())
    assert existed
    assert version == f.Flow.FromString(hub.flows()[0]).version
