"""Who this worker is, to those who lend and borrow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """As in `WorkerInfo`: `host` is equal for processes that can share memory."""

    cluster: str
    worker: str
    incarnation: str
    host: str
    device: str = "cpu"
