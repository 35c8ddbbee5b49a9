"""`Node`, `Ready` and `Activation`: what a worker's role threads rely on. A real `Hub` plays the scheduler."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pytest

from omniflow.v1 import cluster_pb2 as c
from omniflow.v1 import error_pb2 as e
from omniflow.v1 import flow_pb2 as f
from omniflow.v1 import job_pb2 as j
from omniflow.v1 import value_pb2 as v
from omniflow_core import (
    Activation,
    AddressInUse,
    BadOutput,
    Cancelled,
    Closed,
    Hub,
    InvalidArgument,
    Node,
    UnknownPort,
    WireError,
)

CLUSTER: Final = "test"
TEXT: Final = v.Type(kind=v.KIND_TEXT)
TEXTS: Final = v.Type(kind=v.KIND_TEXT, stream=True)
PATIENCE: Final = 10.0


def text(value: str) -> bytes:
    return v.Value(text=value).SerializeToString()


def info() -> c.WorkerInfo:
    worker = c.WorkerInfo(name="w", incarnation="w-1")
    parameters = [c.Parameter(name=name, type=v.Type(kind=v.KIND_INTEGER)) for name in ("words", "pace")]
    worker.roles.add(name="writer", concurrency=1).methods.add(name="write", parameters=parameters)
    worker.roles.add(name="reader", concurrency=1).methods.add(name="read")
    return worker


def flow() -> f.Flow:
    """question -> writer.write -> (stream) -> reader.read -> answer."""
    made = f.Flow(name="retold")
    made.inputs.add(name="question", type=TEXT, parameter="question")
    made.results.add(name="answer", type=TEXT)
    writer = made.nodes.add(name="writer.write", role="writer", method="write")
    writer.inputs.add(name="question", type=TEXT, parameter="question")
    writer.outputs.add(name="words", type=TEXTS)
    writer.parameters["words"].integer = 3
    writer.parameters["pace"].integer = 1
    reader = made.nodes.add(name="reader.read", role="reader", method="read")
    reader.inputs.add(name="words", type=TEXTS, parameter="words")
    reader.outputs.add(name="answer", type=TEXT)
    for node in made.nodes:
        node.trigger.add(ports=[0])
    to_writer, to_reader = f.End(place=f.End.NODE, node=0), f.End(place=f.End.NODE, node=1)
    made.edges.add(**{"from": f.End(place=f.End.INPUT)}, to=to_writer, type=TEXT)
    made.edges.add(**{"from": to_writer}, to=to_reader, type=TEXTS)
    made.edges.add(**{"from": to_reader}, to=f.End(place=f.End.RESULT), type=TEXT)
    return made


class Cluster:
    """A hub and one node, both roles played by the test."""

    def __init__(self, folder: Path) -> None:
        self.node = Node(info().SerializeToString(), [f"unix:{folder / 'w'}", "tcp:127.0.0.1:0"], cluster=CLUSTER)
        self.hub = Hub(cluster=CLUSTER, term=1, max_attempts=1)
        seen = info()
        seen.addresses.extend(self.node.addresses)
        self.hub.put_flow(flow().SerializeToString())
        self.hub.worker_seen(seen.SerializeToString())
        self.client = self.hub.open_client()

    def submit(self, words: int | None = None) -> None:
        batch = j.ClientBatch()
        request = batch.messages.add(tag=1).submit
        request.flow = "retold"
        request.tenant = "anna"
        request.inputs.add(name="question", frames=[text("why?")])
        if words is not None:
            request.parameters["writer.write.words"].integer = words
        self.hub.send(self.client, batch.SerializeToString())

    def cancel(self, job: str) -> None:
        batch = j.ClientBatch()
        batch.messages.add(tag=2).cancel.job = job
        self.hub.send(self.client, batch.SerializeToString())

    def take(self, role: str) -> Activation:
        [activation] = self.node.ready(role).take(1, PATIENCE)
        return activation

    def end_of(self, job: str) -> j.JobStatus:
        """Asks until the job has ended; the hub has no call that waits."""
        pause = Event()
        for _ in range(1000):
            status = j.JobStatus.FromString(self.hub.job_status(job) or b"")
            if status.state >= j.JobStatus.SUCCEEDED:
                return status
            pause.wait(0.01)
        raise AssertionError(f"job {job} does not end")

    def close(self) -> None:
        self.hub.close(0)
        self.node.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def test_an_activation_says_what_it_is(cluster: Cluster) -> None:
    cluster.submit(words=7)
    writer = cluster.take("writer")
    assert (writer.node, writer.role, writer.method) == ("writer.write", "writer", "write")
    assert (writer.key, writer.tenant, writer.cancelled) == ((), "anna", False)
    assert len(writer.job) == 16
    assert 0 < writer.remaining_ms <= 600_000
    assert writer.inputs == [("question", "value")]
    assert writer.value("question") == text("why?")
    parameters = {name: v.Value.FromString(value).integer for name, value in writer.parameters.items()}
    assert parameters == {"words": 7, "pace": 1}, "the job overrides the flow's constants"


def test_a_stream_is_read_while_it_is_made(cluster: Cluster) -> None:
    cluster.submit()
    writer = cluster.take("writer")
    assert writer.emit("words", [text("so")]) == 1
    reader = cluster.take("reader")
    assert reader.inputs == [("words", "stream")]
    assert reader.read("words", 9, PATIENCE) == [text("so")]
    assert reader.read("words", 9, 0.0) == [], "nothing has come yet"
    assert writer.emit("words", [text("it"), text("is")]) == 2
    assert reader.read("words", 1, PATIENCE) == [text("it")]
    writer.finish({"words": 3.0})
    assert reader.read("words", 9, PATIENCE) == [text("is")]
    assert reader.read("words", 9, PATIENCE) is None
    reader.emit("answer", [text("so it is")])
    reader.finish({})
    assert cluster.end_of(reader.job).state == j.JobStatus.SUCCEEDED


def test_wrong_names_and_outputs_are_typed_errors(cluster: Cluster) -> None:
    cluster.submit()
    writer = cluster.take("writer")
    with pytest.raises(UnknownPort, match="it has: words"):
        writer.emit("sounds", [text("x")])
    with pytest.raises(UnknownPort, match="it has: question"):
        writer.value("answer")
    with pytest.raises(UnknownPort, match="stream"):
        writer.read("question", 1, 0.0)
    writer.end("words")
    with pytest.raises(BadOutput, match="words"):
        writer.emit("words", [text("late")])
    writer.finish({})
    reader = cluster.take("reader")
    with pytest.raises(BadOutput, match="answer"):
        reader.finish({})
    reader.emit("answer", [text("one")])
    with pytest.raises(BadOutput, match="answer"):
        reader.emit("answer", [text("two")])


def test_a_cancelled_job_stops_blocked_reads(cluster: Cluster) -> None:
    cluster.submit()
    writer = cluster.take("writer")
    writer.emit("words", [text("so")])
    reader = cluster.take("reader")
    assert reader.read("words", 9, PATIENCE) == [text("so")]
    outcome: list[str] = []

    def wait() -> None:
        try:
            reader.read("words", 9, PATIENCE)
        except Cancelled as cancelled:
            outcome.append(str(cancelled))

    thread = Thread(target=wait)
    thread.start()
    cluster.cancel(reader.job)
    thread.join(PATIENCE)
    assert reader.job in outcome[0]
    assert reader.cancelled
    with pytest.raises(Cancelled):
        writer.emit("words", [text("x")])
    writer.fail(e.Error(message="nobody listens").SerializeToString())


def test_a_failure_names_node_and_worker(cluster: Cluster) -> None:
    cluster.submit()
    writer = cluster.take("writer")
    with pytest.raises(WireError):
        writer.fail(b"\xff\xff")
    writer.fail(e.Error(code=e.ROLE_FAILED, message="out of ink", cause="InkError").SerializeToString())
    error = cluster.end_of(writer.job).error
    assert (error.code, error.node, error.worker) == (e.ROLE_FAILED, "writer.write", "w")
    assert "InkError" in error.cause


def test_an_activation_that_is_dropped_fails_its_job(cluster: Cluster) -> None:
    cluster.submit()
    job = cluster.take("writer").job
    status = cluster.end_of(job)
    assert (status.state, status.error.node) == (j.JobStatus.FAILED, "writer.write")


def test_waiting_leaves_python_to_others_and_ends_when_the_node_closes(tmp_path: Path) -> None:
    node = Node(info().SerializeToString(), [f"unix:{tmp_path / 'w'}"], cluster=CLUSTER)
    ready = node.ready("writer")
    assert ready.take(1, 0.0) == []
    assert len(ready) == 0
    waiting, closed = Event(), Event()

    def wait() -> None:
        waiting.set()
        try:
            ready.take(1, 3600.0)
        except Closed:
            closed.set()

    thread = Thread(target=wait)
    thread.start()
    assert waiting.wait(PATIENCE)
    node.close()
    assert closed.wait(PATIENCE)
    thread.join(PATIENCE)
    node.close()


def test_drain_ends_when_nothing_is_left(cluster: Cluster) -> None:
    cluster.submit()
    writer = cluster.take("writer")
    cluster.node.drain()
    assert cluster.node.draining()
    assert not cluster.node.wait_drained(0.0)
    writer.emit("words", [text("so")])
    writer.finish({})
    reader = cluster.take("reader")
    reader.emit("answer", [text("so")])
    reader.finish({})
    assert cluster.node.wait_drained(PATIENCE)
    stats = cluster.node.stats()
    assert (stats["jobs"], stats["retained_bytes"], stats["activations"]) == (0, 0, 2)


def test_mistakes_at_the_start_are_typed_errors(tmp_path: Path) -> None:
    worker, path = info().SerializeToString(), f"unix:{tmp_path / 'w'}"
    with pytest.raises(WireError, match="WorkerInfo"):
        Node(b"\xff\xff", [path], cluster=CLUSTER)
    with pytest.raises(InvalidArgument, match="tcp:host:port"):
        Node(worker, ["udp:somewhere"], cluster=CLUSTER)
    with pytest.raises(InvalidArgument, match=r"WorkerInfo\.name"):
        Node(b"", [path], cluster=CLUSTER)
    node = Node(worker, [path], cluster=CLUSTER)
    with pytest.raises(AddressInUse, match="another process"):
        Node(worker, [path], cluster=CLUSTER)
    with pytest.raises(InvalidArgument, match="reader, writer"):
        node.ready("painter")
    node.close()
    assert not (tmp_path / "w").exists()
