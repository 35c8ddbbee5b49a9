"""Pages that wait for the worker that goes on from them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from omniflow_core import PageKeys, PageRun


@dataclass(frozen=True, slots=True)
class HandOver:
    """Holds the pages of one prompt. `until`: by `time.monotonic`."""

    run: PageRun
    last_key: bytes
    until: float


class HandOvers:
    """Each is over when somebody has a lease on its pages, or when its time is up. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[HandOver] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, keys: PageKeys, run: PageRun, seconds: float) -> None:
        """Takes over `run`, whose pages have these keys, for so long."""
        hand_over = HandOver(run, bytes(keys[-1:]), time.monotonic() + seconds)
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
        """Lets go of those whose time is up. Seconds until the next one's is; None without one."""
        now = time.monotonic()
        with self._lock:
            over = [each for each in self._waiting if each.until <= now]
            self._waiting = [each for each in self._waiting if each.until > now]
            following = min((each.until - now for each in self._waiting), default=None)
        for each in over:
            each.run.release()
        return following

    def close(self) -> None:
        """Lets go of all."""
        with self._lock:
            over, self._waiting = self._waiting, []
        for each in over:
            each.run.release()
