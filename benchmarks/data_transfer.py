"""512 pages of KV of another worker process: leased and read in place on one host, and pulled over gloo on loopback.

Measured in turn with the leases: the bytes of the question and of its answer over a bare socket between the same two
processes, which is what waking each of them once costs; with the pulls: raw gloo, which moves as many bytes at once.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
import torch
from rows import Row, alone, compared, show

from omniflow.registry import this_host
from omniflow.v1.cluster_pb2 import WorkerInfo
from omniflow.v1.data_pb2 import MemoryAccount
from omniflow_core import ArenaLayout, KeyChain, PageKeys, PageRun, PrefixIndex
from omniflow_workers.arenas import pool_tensor
from omniflow_workers.pools import PoolShare, join_pool
from omniflow_workers.transfer import (
    Acquired,
    DataPeers,
    DataService,
    FixedDirectory,
    Identity,
    PageIds,
    SharedPool,
    Transfer,
)
from omniflow_workers.transfer.pair import BORROWER, OWNER, Pair
from omniflow_workers.transfer.store import LOOPBACK, StoreHome, join_store

PAGES = 512
PAGE_TOKENS = 16
PAGE_BYTES = 128 * 1024
POOL_PAGES = 3 * PAGES
MODEL, LAYOUT = "bench", "bytes"
WORKER = "owner"
LEASES = 2_000
LEASE_US = 100.0
ASKED_BYTES, ANSWERED_BYTES = PAGES * 32, PAGES * 12
"""A key a page; an id and a generation a page."""
REACH = 0.8
PATIENCE_S = 60.0


class Pages:
    """A `PageSource` of a share of a pool, without a model."""

    model = MODEL
    layout = LAYOUT
    page_tokens = PAGE_TOKENS
    page_bytes = PAGE_BYTES
    device = "cpu"

    def __init__(self, share: PoolShare) -> None:
        self.pool = share.arena.book.id
        self.pool_owner = share.owner
        self.allocator = share.allocator
        self.index = PrefixIndex(share.allocator)
        self.rows = pool_tensor(share.arena, torch.uint8, (PAGE_BYTES,)).numpy()

    def compute(self) -> None:
        """The sequence is in the index."""
        with self.allocator.allocate(PAGES) as run:
            self.rows[np.asarray(run)] = np.arange(PAGES, dtype=np.uint32)[:, None] % 251
            self.index.insert(sequence(), run)

    def acquire(self, keys: PageKeys, holder: int, until_ms: int, /) -> Acquired | None:
        with self.index.match(keys) as match, match.run() as run:
            if match.pages == 0:
                return None
            lease = run.lease(holder, until_ms)
            return Acquired(np.asarray(run), np.frombuffer(run.generations, np.uint64), lease)

    def renew(self, lease: int, now_ms: int, until_ms: int, /) -> None:
        self.allocator.renew(lease, now_ms, until_ms)

    def end(self, lease: int, /) -> None:
        self.allocator.end_lease(lease)

    def gather(self, pages: PageIds, into: torch.Tensor, /) -> None:
        np.take(self.rows, pages, axis=0, out=into.numpy(), mode="clip")

    def scatter(self, pages: PageIds, rows: torch.Tensor, /) -> None:
        self.rows[pages] = rows.numpy()


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9, help="alternating measurements of pulls and of raw gloo")
    parser.add_argument("--owner", metavar="CLUSTER", help=argparse.SUPPRESS)
    return parser.parse_args()


def sequence() -> KeyChain:
    """The same in both processes."""
    chain = KeyChain(MODEL, LAYOUT, PAGE_TOKENS)
    chain.extend(np.arange(PAGES * PAGE_TOKENS, dtype=np.int64))
    return chain


def share_of(cluster: str) -> PoolShare:
    layout = ArenaLayout("pages", page_bytes=PAGE_BYTES, pages=POOL_PAGES, fingerprint=b"b" * 32)
    share = join_pool(layout, cluster=cluster, limit=POOL_PAGES // 2 - 1)
    assert share.grow(PAGES)
    return share


def raw_tensor() -> torch.Tensor:
    """As many bytes in one piece, all of them written once."""
    return torch.ones(PAGES * PAGE_BYTES, dtype=torch.uint8)


def bare_address(cluster: str) -> str:
    """Abstract: it is gone with the process."""
    return f"\0bench-bare-{cluster}"


def answer_barely(listener: socket.socket) -> None:
    """Bytes for bytes, until the other side has gone."""
    end, _ = listener.accept()
    with listener, end:
        while end.recv(ASKED_BYTES, socket.MSG_WAITALL):
            end.sendall(bytes(ANSWERED_BYTES))


def exchange(end: socket.socket) -> float:
    """Seconds that it takes."""
    asked = bytes(ASKED_BYTES)
    start = time.perf_counter()
    end.sendall(asked)
    end.recv(ANSWERED_BYTES, socket.MSG_WAITALL)
    return time.perf_counter() - start


def own(cluster: str) -> None:
    """The other process: lends pages, and sends raw bytes when it is told to."""
    with share_of(cluster) as share:
        pages = Pages(share)
        pages.compute()
        service = DataService(Identity(cluster, WORKER, "1", this_host()), [pages])
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(bare_address(cluster))
        listener.listen()
        threading.Thread(target=answer_barely, args=[listener], daemon=True).start()
        home = StoreHome(LOOPBACK)
        port = home.enter()
        print(json.dumps({"addresses": service.addresses, "store": port}), flush=True)
        pair = Pair("gloo", join_store(LOOPBACK, port, "raw", PATIENCE_S), OWNER, LOOPBACK, PATIENCE_S)
        tensor = raw_tensor()
        for number, _ in enumerate(sys.stdin):
            pair.send(tensor, number)
            pair.wait(number, PATIENCE_S)
        service.close()


@contextmanager
def owner(cluster: str) -> Iterator[tuple[IO[str], list[str], int]]:
    """Its standard input, where a line asks for raw bytes; its addresses; its store's port."""
    command = [sys.executable, __file__, "--owner", cluster]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield process.stdin, said["addresses"], said["store"]
        process.stdin.close()


@contextmanager
def peers(cluster: str, addresses: list[str], transfer: Transfer) -> Iterator[DataPeers]:
    """This process's, as a worker of its own."""
    info = WorkerInfo(name=WORKER, incarnation="1", host=this_host(), data_addresses=addresses)
    me = Identity(cluster, transfer, "1", this_host())
    made = DataPeers(me, FixedDirectory(info), transfer=transfer)
    yield made
    made.close()


def lease_rows(cluster: str, addresses: list[str], share: PoolShare) -> list[Row]:
    """In place: what a lease costs, and how many bytes it copies."""
    keys = sequence().keys
    times, bare = [], []
    with peers(cluster, addresses, "auto") as here, socket.socket(socket.AF_UNIX) as end:
        end.connect(bare_address(cluster))
        here.share(SharedPool(share))
        for _ in range(LEASES):
            bare.append(exchange(end))
            start = time.perf_counter()
            borrowed = here.acquire(WORKER, MODEL, LAYOUT, keys)
            times.append(time.perf_counter() - start)
            assert borrowed is not None
            assert (borrowed.in_place, len(borrowed.pages)) == (True, PAGES)
            borrowed.verify()
            borrowed.release()
        account = MemoryAccount()
        here.account(account)
    copied = account.pulls.received_bytes + account.pulls.copied_pages * PAGE_BYTES
    return [
        alone("lease on 512 pages of another worker, in place", statistics.median(times) * 1e6, "µs", at_most=LEASE_US),
        alone("its question and answer as bare bytes between the two processes", statistics.median(bare) * 1e6, "µs"),
        alone("bytes copied to use them", float(copied), "bytes", at_most=0.0),
    ]


def pull_row(cluster: str, addresses: list[str], share: PoolShare, orders: IO[str], port: int, pairs: int) -> Row:
    """Over gloo: pages, and raw bytes."""
    mine = Pages(share)
    keys = sequence().keys
    tensor = raw_tensor()
    raw = Pair("gloo", join_store(LOOPBACK, port, "raw", PATIENCE_S), BORROWER, LOOPBACK, PATIENCE_S)
    ours, theirs = [], []

    def move_raw(number: int) -> float:
        start = time.perf_counter()
        orders.write("\n")
        orders.flush()
        raw.receive(tensor, number)
        raw.wait(number, PATIENCE_S)
        return PAGES * PAGE_BYTES / (time.perf_counter() - start) / 1e9

    def pull(here: DataPeers, run: PageRun) -> float:
        borrowed = here.acquire(WORKER, MODEL, LAYOUT, keys)
        assert borrowed is not None
        with borrowed:
            report = borrowed.pull(mine, np.asarray(run), timeout=PATIENCE_S)
        return report.bytes / report.seconds / 1e9

    with peers(cluster, addresses, "collective") as here, mine.allocator.allocate(PAGES) as run:
        for number in range(pairs + 1):  # the first ones make the groups, and touch all memory
            ours.append(pull(here, run))
            theirs.append(move_raw(number))
        wanted = np.arange(PAGES, dtype=np.uint32) % 251
        assert np.array_equal(mine.rows[np.asarray(run), -1], wanted), "wrong pages came"
    raw.close()
    name = f"512 pages of {PAGE_BYTES // 1024} KiB pulled over gloo loopback, beside raw gloo"
    return compared(name, ours[1:], theirs[1:], "GB/s", at_least=REACH)


def main() -> None:
    """Prints the rows."""
    options = arguments()
    torch.set_num_threads(1)
    if options.owner:
        own(options.owner)
        return
    cluster = f"bench-{os.getpid()}"
    with owner(cluster) as (orders, addresses, port), share_of(cluster) as share:
        rows = lease_rows(cluster, addresses, share)
        rows.append(pull_row(cluster, addresses, share, orders, port, options.pairs))
    show(rows)


if __name__ == "__main__":
    main()
