"""A process that is a member of a pool of pages, and does what it is told over a pipe."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omniflow_core import ArenaLayout, PageError, PageRun
from omniflow_workers.pools import PoolShare, Reading, join_pool, now_ms
from omniflow_workers.stop_at import VARIABLE

PAGES = 65
LAYOUT = ArenaLayout("pages", page_bytes=4096, pages=PAGES, fingerprint=bytes(range(32)))
LEASE_MS = 600_000
ANSWER_S = 60.0

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.cluster_fixtures.pool_member"])


class Died(Exception):  # noqa: N818 - what happened, not what is wrong
    """The process was killed before it answered."""


class PoolMember:
    """Another process. `does` has it call a method of `_Told`."""

    def __init__(self, cluster: str, points: Path | None = None) -> None:
        """`points`: where files name the steps at which it dies."""
        self._pipe, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_serve, args=(theirs, cluster, str(points or "")), daemon=True)
        self.process.start()
        theirs.close()

    def does(self, what: str, *arguments: object) -> Any:
        """Raises `Died`."""
        self.begins(what, *arguments)
        return self.answers()

    def begins(self, what: str, *arguments: object) -> None:
        try:
            self._pipe.send((what, arguments))
        except OSError as error:
            raise Died from error

    def answers(self) -> Any:
        try:
            assert self._pipe.poll(ANSWER_S), "it does not answer"
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise Died from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        """As by `kill -9`; returns when it is gone."""
        self.process.kill()
        self.process.join(ANSWER_S)

    def __enter__(self) -> PoolMember:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._pipe.close()


class _Told:
    def __init__(self, share: PoolShare) -> None:
        self._share = share
        self._content: NDArray[np.uint32] = np.frombuffer(memoryview(share.arena.book), np.uint32).reshape(PAGES, -1)
        self._runs: list[PageRun] = []
        self._readings: list[Reading] = []

    def arena(self) -> str:
        return self._share.arena.book.id.hex()

    def grow(self, pages: int) -> bool:
        return self._share.grow(pages)

    def write(self, pages: int, value: int) -> tuple[int, list[int], bytes]:
        """Takes that many pages and fills them: (owner, pages, generations)."""
        run = self._share.allocator.allocate(pages)
        self._runs.append(run)
        ids = memoryview(run).tolist()
        self._content[ids] = value
        run.lease(1, now_ms() + LEASE_MS)  # whoever reads it asks for nothing more here
        return self._share.owner, ids, run.generations

    def read(self, owner: int, pages: list[int]) -> list[int]:
        """What is in these pages, which are read until `stop_reading`."""
        self._readings.append(self._share.reading(owner, np.array(pages, np.uint32), now_ms() + LEASE_MS))
        return self.look(pages)

    def look(self, pages: list[int]) -> list[int]:
        return sorted({int(value) for page in pages for value in self._content[page]})

    def is_as_noted(self, pages: list[int], generations: bytes) -> bool:
        try:
            self._share.arena.book.verify_all(np.array(pages, np.uint32), np.frombuffer(generations, np.uint64))
        except PageError:
            return False
        return True

    def stop_reading(self) -> None:
        for reading in self._readings:
            reading.end()
        self._readings.clear()

    def release(self) -> None:
        self._share.allocator.drop_holder(1)
        for run in self._runs:
            run.release()
        self._runs.clear()

    def shrink(self) -> int:
        return self._share.shrink(0)

    def counters(self) -> dict[str, int]:
        self._share.allocator.check()
        return self._share.counters()

    def descriptors(self) -> int:
        return len(os.listdir("/proc/self/fd"))

    def leave(self) -> None:
        self._share.close()


def _serve(pipe: Connection, cluster: str, points: str) -> None:
    if points:
        os.environ[VARIABLE] = points
    share: _Told | None = None
    while True:
        try:
            what, arguments = pipe.recv()
        except EOFError:
            return
        try:
            if what == "join":
                share = _Told(join_pool(LAYOUT, cluster=cluster))
                pipe.send(None)
            else:
                pipe.send(getattr(share, what)(*arguments))
        except Exception as error:
            pipe.send(error)
