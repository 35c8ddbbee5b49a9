"""An engine's pages on disk: written beside its thread when the index has them, read back when a prompt begins so."""

from __future__ import annotations

import logging
import mmap
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from omniflow_core import PageKeys, PageRun
from omniflow_workers.engines.sequence import page_ids
from omniflow_workers.engines.stored import Rows, StoredPages

if TYPE_CHECKING:
    from omniflow.v1.data_pb2 import StoredAccount
    from omniflow_workers.engines.torch.pages import EnginePages

log = logging.getLogger(__name__)

_STAGED_BYTES = 8 << 20
"""What goes to or from the disk at a time; nothing of it stays."""
_WAITING_SHARE = 8
"""At most one page in so many of those that the engine may have waits to be written, or those of one prompt. What is
stored already of a prompt is held as long, so `give_way` is what bounds how long anyone goes without pages."""
_WAITING_MOST = 256
"""Prompts that wait to be written."""
_CLOSING_S = 2.0
"""How long what waits is still written when the role is unloaded."""
_STUCK_S = 10.0
"""A disk that takes longer for one piece holds up nothing more."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A prompt. `run`: holds its pages until they are written; None: it was only used. `lacking`: keys of those that
    were not stored."""

    keys: PageKeys
    run: PageRun | None
    lacking: tuple[bytes, ...] = ()

    def release(self) -> None:
        if self.run is not None:
            self.run.release()


class DiskTier:
    """`offer` and `give_way` belong to the thread that steps the engine; the rest is safe from any.

    The thread of its own never holds up the engine: what it cannot take in time is not stored.
    """

    def __init__(self, pages: EnginePages, stored: StoredPages, limit: int) -> None:
        """`limit`: pages that the engine may have at once."""
        self._pages = pages
        self._stored = stored
        self._most = max(1, limit // _WAITING_SHARE)
        self._rows = max(1, _STAGED_BYTES // stored.page_bytes)
        self._changed = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._held: Counter[bytes] = Counter()
        """Keys of the pages that wait to be written, or are being: for how many prompts."""
        self._closed_at: float | None = None
        self._busy = False
        self._wanted_back = False
        """The engine needs pages of what is being written."""
        self._thread = threading.Thread(target=self._run, name="store-pages", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written, and nothing is."""
        with self._changed:
            return not self._waiting and not self._busy

    def offer(self, keys: PageKeys, run: PageRun) -> None:
        """The first pages of `run` have these keys, and are written to no more: they are stored in time, if there is
        room to wait. A prompt is offered again with its answer, perhaps before it is stored."""
        lacking = self._stored.lacking(keys)
        with self._changed:
            if self._closed_at is not None:
                return
            new = [name for name in lacking if name not in self._held]
            if not new:
                self._wait(_Waiting(keys, None))
                return
            waiting = _Waiting(keys, run.share(len(keys)), tuple(lacking))
            others = len(self._held) - (len(lacking) - len(new))
            if (others and len(self._held) + len(new) > self._most) or not self._wait(waiting):
                waiting.release()
                self._stored.count(skipped=len(new))

    def give_way(self) -> bool:
        """The engine needs pages: what waits to be written is not. Whether any are free by that; what is being written
        is let go of in a moment."""
        with self._changed:
            held = len(self._held)
            given_up = list(self._waiting)
            self._waiting.clear()
            for waiting in given_up:
                self._let_go(waiting)
            self._wanted_back = self._busy
            skipped = held - len(self._held)
        self._stored.count(skipped=skipped)
        return any(waiting.lacking for waiting in given_up)

    def follow(self, keys: PageKeys, known: int) -> int:
        """How many pages are stored behind the first `known` ones, without a gap."""
        return self._stored.follow(keys, known) if known < len(keys) else 0

    def used(self, keys: PageKeys) -> None:
        """A prompt begins with these pages."""
        self._stored.used(keys)

    def read(self, keys: PageKeys, run: PageRun, known: int) -> int:
        """Reads the pages of `run` behind the first `known` ones, which nobody else has yet. How many came: it ends at
        the first that is not there any more, or not as it was written."""
        rows = _staging(min(self._rows, len(run) - known), self._stored.page_bytes)
        ids, at = page_ids(run), known
        while at < len(run):
            wanted = rows[: len(run) - at]
            read = self._stored.read(keys, at, wanted)
            if read:
                staged = torch.from_numpy(rows[:read])
                self._pages.scatter(ids[at : at + read], staged.to(self._pages.device))
            at += read
            if read < len(wanted):
                break
        self._stored.count(hits=int(at > known))
        return at - known

    def account(self, into: StoredAccount) -> None:
        """Says what is stored, and what became of it."""
        counts, stored = self._stored.counts, self._stored
        into.file_bytes, into.total, into.stored = stored.file_bytes, stored.total, len(stored)
        into.hits, into.read, into.written = counts.hits, counts.read, counts.written
        into.skipped, into.damaged = counts.skipped, counts.damaged
        with self._changed:
            into.waiting_now = len(self._held)

    def close(self) -> None:
        """Writes what waits, for a moment, and closes the file. Nobody offers, or reads, any more. Again: nothing."""
        with self._changed:
            if self._closed_at is not None:
                return
            self._closed_at = time.monotonic()
            self._changed.notify()
        self._thread.join(_CLOSING_S + _STUCK_S)
        if self._thread.is_alive():
            log.warning("the disk is stuck: pages that were to be stored are lost")
            return
        self.give_way()
        self._stored.close()

    def _wait(self, waiting: _Waiting) -> bool:
        """False: too many do."""
        if len(self._waiting) >= _WAITING_MOST:
            return False
        self._waiting.append(waiting)
        self._held.update(waiting.lacking)
        self._changed.notify()
        return True

    def _let_go(self, waiting: _Waiting) -> None:
        waiting.release()
        self._held -= Counter(waiting.lacking)

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            try:
                self._store(waiting)
            except Exception:  # a page that is not stored is computed again
                log.exception("pages are not stored")
            finally:
                with self._changed:
                    self._busy = False
                    self._let_go(waiting)

    def _next(self) -> _Waiting | None:
        """What is to be written next, when there is something; None: nothing more is."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed_at is not None)
            if self._closed_at is not None and time.monotonic() - self._closed_at > _CLOSING_S:
                return None
            if not self._waiting:
                return None
            self._busy, self._wanted_back = True, False
            return self._waiting.popleft()

    def _store(self, waiting: _Waiting) -> None:
        keys, run = waiting.keys, waiting.run
        if run is None:
            self._stored.used(keys)
            return
        rows = _staging(min(self._rows, len(keys)), self._stored.page_bytes)
        ids = page_ids(run)

        def content(start: int, stop: int) -> Rows | None:
            if self._wanted_back:
                return None
            staged = rows[: stop - start]
            self._pages.gather(ids[start:stop], torch.from_numpy(staged))
            if stop == len(keys):
                run.release()  # the engine may need them while the disk is waited for
            return staged

        self._stored.store(keys, len(rows), content)


def _staging(pages: int, page_bytes: int) -> Rows:
    """Memory that begins where a block does: what the disk can be read into and written from without a copy."""
    return np.frombuffer(mmap.mmap(-1, pages * page_bytes), np.uint8).reshape(pages, page_bytes)
