"""Pages that wait for the worker that goes on from them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from omniflow_core import PageKeys, PageRun


@dataclass(frozen=True, slots=True, eq=False)
class HandOver:
    """Holds the pages of one prompt. `until`: by `time.monotonic`; `unwanted`: whether nobody can want them now."""

    run: PageRun
    last_key: bytes
    until: float
    unwanted: Callable[[], bool]

    def over(self, now: float) -> bool:
        """Whether they wait for nothing."""
        return self.until <= now or self.unwanted()


class HandOvers:
    """Each is over when somebody has a lease on its pages, when its time is up, or its job. Safe from any thread."""

    _LOOK_SECONDS = 0.5  # nobody tells that a job is over

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[HandOver] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, keys: PageKeys, run: PageRun, seconds: float, unwanted: Callable[[], bool]) -> None:
        """Takes over `run`, whose pages have these keys, for so long, or until `unwanted`."""
        hand_over = HandOver(run, bytes(keys[-1:]), time.monotonic() + seconds, unwanted)
        with self._lock:
            self._waiting.append(hand_over)

    def taken(self, keys: PageKeys) -> None:
        """Somebody holds these pages now: one hand-over that ends with them is over."""
        last_key = bytes(keys[-1:])
        with self._lock:
            found = next((each for each in self._waiting if each.last_key == last_key), None)
            if found is not None:
                self._waiting.remove(found)
        if found is not None:
            found.run.release()

    def expire(self) -> float | None:
        """Lets go of those that wait for nothing. Seconds until to look again; None when none is left."""
        if not self._waiting:
            return None
        now = time.monotonic()
        with self._lock:
            over = [each for each in self._waiting if each.over(now)]
            self._waiting = [each for each in self._waiting if each not in over]
            following = min((each.until - now for each in self._waiting), default=None)
        for each in over:
            each.run.release()
        return None if following is None else min(following, self._LOOK_SECONDS)

    def close(self) -> None:
        """Lets go of all."""
        with self._lock:
            over, self._waiting = self._waiting, []
        for each in over:
            each.run.release()
