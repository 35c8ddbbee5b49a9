"""Data services and peers in this process, and what they leave behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omniflow.data import Framed, dial, greet
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.data_pb2 import DataHello, DataReply, DataRequest
from omniflow_workers.transfer import DataPeers, DataService, FixedDirectory, Identity, PageSource, TransferLimits
from tests.cluster_fixtures.shared_memory import no_new_names_stay

PATIENCE_S = 60.0
HOST = "here"
CLUSTER = "tests"


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Of things that another thread or process does soon. Raises AssertionError after a long time."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"this never came: {what}"
        time.sleep(0.005)


def identity(worker: str, *, incarnation: str = "first", host: str = HOST) -> Identity:
    return Identity(CLUSTER, worker, incarnation, host)


def info_of(worker: str, addresses: list[str], *sources: PageSource, incarnation: str = "first") -> WorkerInfo:
    """As a worker registers."""
    info = WorkerInfo(name=worker, incarnation=incarnation, host=HOST, data_addresses=addresses)
    for number, source in enumerate(sources):
        role = info.roles.add(name=f"llm{number or ''}", weights_fingerprint=source.model)
        role.page_layout.description = source.layout
    return info


@dataclass
class Plane:
    """Workers of this process, by name."""

    directory: FixedDirectory = field(default_factory=FixedDirectory)
    services: dict[str, DataService] = field(default_factory=dict)
    peers: list[DataPeers] = field(default_factory=list)
    ends: list[Framed] = field(default_factory=list)

    def lend(self, worker: str, *sources: PageSource, limits: TransferLimits | None = None) -> DataService:
        """A worker with pages: a role for each source."""
        service = DataService(identity(worker), sources, ["tcp:127.0.0.1:0"], limits=limits)
        self.services[worker] = service
        self.directory.put(info_of(worker, service.addresses, *sources))
        return service

    def borrow(self, worker: str = "borrower", *, limits: TransferLimits | None = None) -> DataPeers:
        """A worker that borrows."""
        peers = DataPeers(identity(worker), self.directory, limits=limits)
        self.peers.append(peers)
        return peers

    def raw(self, address: str, worker: str = "", *, epoch: int = 1) -> Framed:
        """A connection that says what the test says, after a good greeting."""
        end = dial(address, None, PATIENCE_S)
        self.ends.append(end)
        reply = greet(end, DataHello(cluster=CLUSTER, name=worker, incarnation="first", epoch=epoch), PATIENCE_S)
        assert reply.HasField("welcome"), reply
        return end

    def close(self) -> None:
        for peers in self.peers:
            peers.close()
        for end in self.ends:
            end.close()
        for service in self.services.values():
            service.check()
            service.close()
        self.services.clear()
        self.peers.clear()


def say(end: Framed, request: DataRequest) -> DataReply:
    """One request and its reply."""
    end.send(request.SerializeToString(), PATIENCE_S)
    return DataReply.FromString(end.receive(PATIENCE_S))


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """What begins in it ends in it: threads (torch's own, too), descriptors, names in /dev/shm."""

    def counts() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/task")), open_descriptors()

    before, names = counts(), {thread.name for thread in threading.enumerate()}
    with no_new_names_stay():
        yield
    left = {thread.name for thread in threading.enumerate()} - names
    wait_until(
        lambda: all(now <= then for now, then in zip(counts(), before, strict=True)),
        f"threads, descriptors: {before} before, {counts()} now; {left}",
    )
