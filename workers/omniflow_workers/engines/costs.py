"""What computing tokens costs and what fetching pages costs, as measured: which of them is cheaper."""

from __future__ import annotations

_NEWEST = 0.3
"""Weight of the newest measurement in a mean."""
_FADING = 0.02


class Mean:
    """A running mean of what is measured; None as long as nothing was."""

    def __init__(self) -> None:
        self.value: float | None = None

    def measured(self, now: float) -> None:
        """One more."""
        self.value = now if self.value is None else self.value + _NEWEST * (now - self.value)

    def decided_against(self) -> None:
        """Makes it seem a little less, so that what was dear once is tried again in time."""
        if self.value is not None:
            self.value *= 1 - _FADING


class PrefillRate:
    """How long a token of a prompt takes to compute, in steps that have many."""

    _LEAST = 16
    """Tokens of a step that tell: with fewer, reading the weights is most of it."""

    def __init__(self) -> None:
        self._mean = Mean()

    @property
    def seconds_a_token(self) -> float | None:
        return self._mean.value

    def computed(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long."""
        if tokens >= self._LEAST:
            self._mean.measured(seconds / tokens)


class FetchCosts:
    """What it takes to ask others for pages, to have them sent, and to read own ones from disk. What was never measured
    is tried."""

    def __init__(self) -> None:
        self._asking = Mean()
        self._seconds_a_byte: dict[str, Mean] = {}
        self._reading = Mean()

    def asked(self, seconds: float) -> None:
        """To ask all who may have pages took so long."""
        self._asking.measured(seconds)

    def fetched(self, worker: str, size: int, seconds: float) -> None:
        """So many bytes came from `worker` in that time."""
        if size:
            self._seconds_a_byte.setdefault(worker, Mean()).measured(seconds / size)

    def read(self, size: int, seconds: float) -> None:
        """So many bytes came from this worker's disk in that time."""
        if size:
            self._reading.measured(seconds / size)

    def worth_asking(self, tokens: int, rate: PrefillRate) -> bool:
        """Whether to compute so many tokens takes longer than to ask whether anyone has them."""
        return _worth(self._asking, 1, tokens, rate)

    def worth_fetching(self, worker: str, size: int, tokens: int, rate: PrefillRate) -> bool:
        """Whether to compute so many tokens takes longer than to have `size` bytes sent by `worker`."""
        return _worth(self._seconds_a_byte.setdefault(worker, Mean()), size, tokens, rate)

    def worth_reading(self, size: int, tokens: int, rate: PrefillRate) -> bool:
        """Whether to compute so many tokens takes longer than to read `size` bytes from this worker's disk."""
        return _worth(self._reading, size, tokens, rate)


def _worth(mean: Mean, units: int, tokens: int, rate: PrefillRate) -> bool:
    if mean.value is None or rate.seconds_a_token is None:
        return True
    worth = units * mean.value < tokens * rate.seconds_a_token
    if not worth:
        mean.decided_against()
    return worth
