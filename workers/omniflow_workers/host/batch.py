"""How many activations a thread takes at once."""

# A thread takes about this much work at a time: longer, and a more urgent job would wait behind what was taken.
TARGET_SECONDS = 0.001
LARGEST = 16
# Weight of the newest run in the mean.
NEWEST = 0.2


class BatchSize:
    """One for roles that take longer than a millisecond; more for those that are quicker than a wake-up."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._seconds_each = TARGET_SECONDS
        self._largest = largest

    def __call__(self) -> int:
        """How many to take now."""
        return max(1, min(self._largest, int(TARGET_SECONDS / self._seconds_each)))

    def ran(self, count: int, seconds: float) -> None:
        """`count` activations took `seconds` together."""
        each = max(seconds / count, 1e-6)
        self._seconds_each += NEWEST * (each - self._seconds_each)
