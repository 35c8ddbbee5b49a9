"""Counters of transfers, as the account shows them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from omniflow.v1.data_pb2 import PullAccount


@dataclass(slots=True)
class PullCounts:
    """Of one worker, both ways. Safe to use from any thread."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _account: PullAccount = field(default_factory=PullAccount)

    def add(self, **changes: int) -> None:
        """Adds to counters by their names in `PullAccount`; gauges go down by negative numbers."""
        with self._lock:
            for name, change in changes.items():
                setattr(self._account, name, getattr(self._account, name) + change)

    def fill(self, into: PullAccount) -> None:
        """Copies all."""
        with self._lock:
            into.CopyFrom(self._account)
