"""The clock that all processes of a host share: leases of one are understood by another."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the host started; what the ends of leases in a pool are told in."""
    return time.monotonic_ns() // 1_000_000


def new_owner(newest: int) -> int:
    """The number of one life of a process in a pool: higher than `newest`, and than any that a lost book has given out,
    as it is the time at which it was."""
    return max(newest + 1, time.monotonic_ns())
