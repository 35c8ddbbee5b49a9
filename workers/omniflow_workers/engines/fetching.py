"""Pages of prompts that lie on disk, or with other workers: looked for beside the engine's thread, taken when that is
cheaper than to compute them."""

from __future__ import annotations

import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

import numpy as np

from omniflow_core import OutOfPages, PageKeys, PageRun
from omniflow_workers.engines.costs import FetchCosts, PrefillRate
from omniflow_workers.engines.loop import Request
from omniflow_workers.engines.planner import return_borrowed
from omniflow_workers.engines.sequence import Sequence, page_ids
from omniflow_workers.transfer import Borrowed, Peers

if TYPE_CHECKING:
    from omniflow_workers.engines.torch.disk_tier import DiskTier
    from omniflow_workers.engines.torch.pages import EnginePages

log = logging.getLogger(__name__)

Reuse = Literal["auto", "always", "never"]
"""When pages of other workers are taken: when they cost less than computing, whenever there are any, or never."""
_AT_ONCE = 4
_WITHIN_S = 0.1
"""How long a prompt waits for answers of those who may have its pages."""
_HANDED_OVER_S = 1.0
"""How long one that was computed for this: somebody has them."""
_ALWAYS_S = 10.0
"""How long when they are to be taken whatever it costs, and how long a pull may take then."""
_LEAST_PULL_S = 0.5
"""A pull may take twice as long as computing would, and so long at least."""
_UNMEASURED_PULL_S = 2.0
"""While nobody knows what computing takes."""
_STUCK_S = 0.25
"""When none of the threads has come to an end for so long, nobody waits for one any more."""


class Fetching:
    """Of one engine. `begin` and `found` belong to the thread that steps it."""

    def __init__(
        self, pages: EnginePages, peers: Peers, rate: PrefillRate, reuse: Reuse, disk: DiskTier | None = None
    ) -> None:
        """`reuse`: what other workers have; what is on this one's `disk` is taken when that is cheaper, or always."""
        self._pages = pages
        self._peers = peers
        self._disk = disk
        self._rate = rate
        self._reuse = reuse
        self._costs = FetchCosts()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch-pages")
        self._over: SimpleQueue[Request] = SimpleQueue()
        self._wanted: set[Request] = set()
        self._moved = 0.0
        """When a thread was last free, or came to an end."""
        self.waiting = 0
        """Requests that are looked for, or that `found` has yet to give back."""

    def begin(self, request: Request, *, handed_over: bool = False) -> bool:
        """Has the pages of the prompt looked for, if that may pay. `handed_over`: somebody has computed them for this.

        False: not worth it, go on with the request. True: `found` gives it back.
        """
        if self._reuse == "never" and self._disk is None:
            return False
        keys = self._keys(request.sequence)
        known = self._pages.known(keys, len(keys))
        if known == len(keys) or not (self._may_ask(len(keys) - known, handed_over) or self._on_disk(keys, known)):
            return False
        if self._stuck():
            return False
        within = self._within(handed_over)
        # One that finds a thread free is looked for however late that comes to run.
        begins_by = time.monotonic() + max(within, _STUCK_S) if self._busy else math.inf
        self.waiting += 1
        self._wanted.add(request)
        self._threads.submit(self._look, request, keys, within, begins_by, handed_over)
        return True

    def found(self, patience: float) -> list[Request]:
        """Requests that were looked for, with what was found: the first after up to `patience` seconds."""
        found: list[Request] = []
        try:
            while self.waiting:
                request = self._over.get(timeout=patience) if patience and not found else self._over.get_nowait()
                self.waiting -= 1
                if request in self._wanted:
                    self._wanted.remove(request)
                    found.append(request)
                else:
                    return_borrowed(request.sequence)
        except Empty:
            pass
        return found

    def cancelled(self) -> list[Request]:
        """Requests that are no longer wanted, though still looked for: each once, and `found` gives none of them."""
        unwanted = [request for request in self._wanted if request.listener.cancelled]
        self._wanted.difference_update(unwanted)
        return unwanted

    def close(self) -> None:
        """Waits for what is still being asked."""
        self._threads.shutdown()

    @property
    def _busy(self) -> bool:
        """Whether one more has to wait for a thread."""
        return self.waiting - self._over.qsize() >= _AT_ONCE

    def _stuck(self) -> bool:
        """Whether all threads wait for somebody who hangs: what comes now is computed."""
        now = time.monotonic()
        if not self._busy:
            self._moved = now
        return self._reuse != "always" and now - self._moved > _STUCK_S

    def _keys(self, sequence: Sequence) -> PageKeys:
        """Of the full pages before the prompt's last token."""
        chain = self._pages.new_chain(sequence.tenant)
        chain.extend(np.asarray(sequence.tokens[:-1], np.int64))
        return chain.keys

    def _within(self, handed_over: bool) -> float:
        if self._reuse == "always":
            return _ALWAYS_S
        return _HANDED_OVER_S if handed_over else _WITHIN_S

    def _may_ask(self, missing: int, handed_over: bool) -> bool:
        """Whether it may pay to ask others for so many pages."""
        if self._reuse == "never" or missing == 0:
            return False
        if handed_over:
            return True
        if not self._peers.workers(self._pages.model, self._pages.layout):
            return False
        tokens = missing * self._pages.page_tokens
        return self._reuse == "always" or self._costs.worth_asking(tokens, self._rate)

    def _on_disk(self, keys: PageKeys, known: int) -> int:
        """How many pages behind the known ones are on disk, and are read sooner than computed."""
        found = self._disk.follow(keys, known) if self._disk is not None else 0
        if not found or self._reuse == "always":
            return found
        size, tokens = found * self._pages.page_bytes, found * self._pages.page_tokens
        return found if self._costs.worth_reading(size, tokens, self._rate) else 0

    def _look(self, request: Request, keys: PageKeys, within: float, begins_by: float, handed_over: bool) -> None:
        try:
            if time.monotonic() <= begins_by and not request.listener.cancelled:
                self._find(request, keys, within, handed_over)
        except Exception as error:  # whatever it is, the pages can be computed
            log.warning("%s: computes what others may have: %s", request.sequence.name, error)
        finally:
            self._moved = time.monotonic()
            self._over.put(request)

    def _find(self, request: Request, keys: PageKeys, within: float, handed_over: bool) -> None:
        """What is handed over lies in somebody's memory; else the own disk is nearest."""
        if not handed_over:
            self._read(request.sequence, keys)
        missing = len(keys) - self._pages.known(keys, len(keys))
        if self._may_ask(missing, handed_over):
            self._fetch(request, keys, within)
        if handed_over and request.sequence.borrowed is None:
            self._read(request.sequence, keys)

    def _read(self, sequence: Sequence, keys: PageKeys) -> None:
        """From disk, into pages of the engine's own, where the index finds them."""
        known = self._pages.known(keys, len(keys))
        found = self._on_disk(keys, known)
        if self._disk is None or not found:
            return
        run = self._pages.keep(keys, known)
        try:
            known, wanted = len(run), known + found
            started = time.perf_counter()
            self._pages.extend(run, wanted - known)
            run.truncate(known + self._disk.read(keys, run, known))
            self._pages.take_in(keys[: len(run)], run)
        except OutOfPages:  # those who run have them all
            run.release()
            return
        except BaseException:
            run.release()
            raise
        self._costs.read((len(run) - known) * self._pages.page_bytes, time.perf_counter() - started)
        self._disk.used(keys)
        _keep(sequence, run)

    def _fetch(self, request: Request, keys: PageKeys, within: float) -> None:
        sequence = request.sequence
        started = time.perf_counter()
        borrowed = self._peers.best(self._pages.model, self._pages.layout, keys, within=within)
        self._costs.asked(time.perf_counter() - started)
        if borrowed is None:
            return
        known = self._pages.known(keys, len(keys))
        if borrowed.in_place and len(borrowed.pages) > known:
            sequence.borrowed = borrowed  # which lets go of it
            return
        with borrowed:
            missing = len(borrowed.pages) - known
            if missing > 0 and not request.listener.cancelled and self._cheaper(borrowed, missing):
                self._pull(sequence, keys[: len(borrowed.pages)], borrowed)

    def _cheaper(self, borrowed: Borrowed, missing: int) -> bool:
        size, tokens = missing * self._pages.page_bytes, missing * self._pages.page_tokens
        return self._reuse == "always" or self._costs.worth_fetching(borrowed.worker, size, tokens, self._rate)

    def _pull_within(self, missing: int) -> float:
        """Seconds that so many pages are waited for, before they are computed."""
        if self._reuse == "always":
            return _ALWAYS_S
        seconds_a_token = self._rate.seconds_a_token
        if seconds_a_token is None:
            return _UNMEASURED_PULL_S
        return max(_LEAST_PULL_S, 2 * missing * self._pages.page_tokens * seconds_a_token)

    def _pull(self, sequence: Sequence, keys: PageKeys, borrowed: Borrowed) -> None:
        """Into pages of the engine's own, where the index finds them."""
        run = self._pages.keep(keys, len(keys))
        known = len(run)
        try:
            self._pages.extend(run, len(keys) - known)
            timeout = self._pull_within(len(keys) - known)
            report = borrowed.pull(self._pages, page_ids(run)[known:], first=known, timeout=timeout)
            self._pages.take_in(keys, run)
        except BaseException:
            run.release()
            raise
        self._costs.fetched(borrowed.worker, report.bytes, report.seconds)
        _keep(sequence, run)
        sequence.pulled = report.pages * self._pages.page_tokens


def _keep(sequence: Sequence, run: PageRun) -> None:
    """Until it is admitted, in place of what was found of it before, which is the beginning of this."""
    if sequence.kept is not None:
        sequence.kept.release()
    sequence.kept = run
