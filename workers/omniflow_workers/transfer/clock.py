"""The clock of leases."""

import time


def now_ms() -> int:
    """Milliseconds of a clock that never goes back. It means nothing in another process (rule 16)."""
    return time.monotonic_ns() // 1_000_000
