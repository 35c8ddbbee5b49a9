"""A process that lends and borrows pages without a model, and does what a test tells it."""

from __future__ import annotations

import gc
import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omniflow.registry import this_host
from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_core import StalePage
from omniflow_workers.stop_at import VARIABLE
from omniflow_workers.transfer import Borrowed, DataPeers, DataService, FixedDirectory, Identity, TransferLimits
from omniflow_workers.transfer.errors import TransferError
from tests.cluster_fixtures.data_plane import PATIENCE_S, info_of, wait_until
from tests.cluster_fixtures.tiny_source import MODEL, TinySource, keys_of

FOR_GOOD_S = 100 * PATIENCE_S
"""Leases of pulls: what is not given back, nor ends with its connection, is seen, since nobody waits that long."""
LIMITS = TransferLimits(
    chunk_bytes=3 * 4096, group_s=PATIENCE_S, stall_s=PATIENCE_S, answer_s=PATIENCE_S, max_lease_s=FOR_GOOD_S
)
TTL_S = 3.0
_LAYOUT = "bytes"


class DataWorker:
    """The process, as it runs in the child."""

    def __init__(self, name: str, incarnation: str) -> None:
        self.source = TinySource(256)
        self.directory = FixedDirectory()
        self.me = Identity("tests", name, incarnation, this_host())
        self.service = DataService(self.me, [self.source], limits=LIMITS)
        self.peers = DataPeers(self.me, self.directory, limits=LIMITS)
        self.borrowed: Borrowed | None = None

    def where(self) -> tuple[str, str, list[str]]:
        return self.me.worker, self.me.incarnation, self.service.addresses

    def know(self, name: str, incarnation: str, addresses: list[str]) -> None:
        info = info_of(name, addresses, self.source, incarnation=incarnation)
        info.host = this_host()
        self.directory.put(info)

    def compute(self, seed: int, pages: int) -> None:
        self.source.compute(seed, pages)

    def acquire(self, worker: str, seed: int, pages: int) -> int:
        self.borrowed = self.peers.acquire(worker, MODEL, _LAYOUT, keys_of(seed, pages), ttl=TTL_S)
        return 0 if self.borrowed is None else len(self.borrowed.pages)

    def pull(self, worker: str, seed: int, pages: int) -> str:
        """ "right", "wrong", or the kind of error."""
        try:
            borrowed = self.peers.acquire(worker, MODEL, _LAYOUT, keys_of(seed, pages), ttl=FOR_GOOD_S)
            if borrowed is None:
                return "missed"
            with borrowed, self.source.take(len(borrowed.pages)) as run:
                borrowed.pull(self.source, np.array(run), timeout=PATIENCE_S)
                borrowed.verify()
                return "right" if self.source.holds(seed, np.array(run)) else "wrong"
        except (TransferError, StalePage) as error:
            return type(error).__name__

    def lost(self) -> bool:
        return self.borrowed is not None and self.borrowed.lost

    def wait_lost(self) -> None:
        wait_until(self.lost, "the borrower's knowing that it has lost its lease")

    def wait_renewed(self) -> None:
        assert self.borrowed is not None
        wait_until(lambda: self.service.account().leases.renewed > 0, "a renewal")

    def release(self) -> None:
        if self.borrowed is not None:
            self.borrowed.release()
            self.borrowed = None

    def busy(self) -> dict[str, int]:
        """All that is to be 0 when nobody does anything."""
        account: MemoryAccount = self.service.account()
        self.peers.account(account)
        pulls, held = account.pulls, self.source.allocator.counters()["held"] - len(self.source.index)
        return {
            "lent": account.leases.leases_now,
            "leased": self.source.leased,
            "borrowed": account.borrowed.leases_now,
            "sending": pulls.sending_now,
            "receiving": pulls.receiving_now,
            "held": held,
        }

    def wait_idle(self) -> None:
        self.service.check()
        wait_until(lambda: not any(self.busy().values()), f"nothing held: {self.busy()}")
        self.source.allocator.check()

    def footprint(self) -> tuple[int, int, int]:
        """Threads, descriptors, groups."""
        gc.collect()
        account = self.service.account()
        self.peers.account(account)
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), account.pulls.groups_now

    def wait_footprint(self, before: tuple[int, int, int]) -> None:
        wait_until(
            lambda: all(now <= then for now, then in zip(self.footprint(), before, strict=True)),
            f"threads, descriptors, groups: {before} before, {self.footprint()} now",
        )


def serve(orders: Connection, name: str, incarnation: str, stops: str) -> None:
    """Until the test has gone."""
    os.environ[VARIABLE] = stops
    torch.set_num_threads(1)
    worker = DataWorker(name, incarnation)
    orders.send(worker.where())
    while True:
        try:
            method, arguments = orders.recv()
        except EOFError:
            return
        try:
            orders.send((getattr(worker, method)(*arguments), None))
        except Exception as error:
            orders.send((None, f"{type(error).__name__}: {error}"))


@dataclass
class Child:
    """The process, as the test has it."""

    process: Any
    orders: Connection
    name: str
    incarnation: str
    addresses: list[str]
    stops: Path

    def ask(self, method: str, *arguments: object) -> Any:
        """Calls a method of `DataWorker` there. Raises EOFError when it dies over it."""
        self.begin(method, *arguments)
        return self.finish()

    def begin(self, method: str, *arguments: object) -> None:
        self.orders.send((method, arguments))

    def finish(self) -> Any:
        assert self.orders.poll(4 * PATIENCE_S), f"{self.name} does not answer"
        result, error = self.orders.recv()
        assert error is None, f"{self.name}: {error}"
        return result

    def knows(self, *others: Child) -> None:
        for other in others:
            self.ask("know", other.name, other.incarnation, other.addresses)

    def dies_at(self, point: str) -> None:
        """As by kill -9, when it comes there next."""
        (self.stops / point).touch()

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> None:
        """Until it is dead."""
        self.process.join(PATIENCE_S)
        assert not self.process.is_alive(), f"{self.name} lives"
        self.orders.close()


class Nursery:
    """Starts such processes quickly: torch is imported once, in a process that forks them."""

    def __init__(self, folder: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.cluster_fixtures.data_worker"])
        self._folder = folder
        self._born = 0
        self._children: list[Child] = []

    def start(self, name: str) -> Child:
        self._born += 1
        stops = self._folder / f"{name}-{self._born}"
        stops.mkdir()
        here, there = self._context.Pipe()
        incarnation = str(self._born)
        process = self._context.Process(target=serve, args=(there, name, incarnation, str(stops)), daemon=True)
        process.start()
        there.close()
        assert here.poll(4 * PATIENCE_S), f"{name} does not start"
        _, _, addresses = here.recv()
        child = Child(process, here, name, incarnation, addresses, stops)
        self._children.append(child)
        return child

    def close(self) -> None:
        for child in self._children:
            if child.process.is_alive():
                child.process.kill()
            child.process.join(PATIENCE_S)
