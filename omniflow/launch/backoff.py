"""When a process that died is started again: pure arithmetic, no clock."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Delays that double with every death up to a maximum, and start over after a stable run. Seconds."""

    first_delay_s: float
    max_delay_s: float
    stable_after_s: float
    _deaths: int = 0

    def next_delay(self, ran_s: float) -> float:
        """The pause before the next start of a process that has just died after `ran_s` seconds."""
        if ran_s >= self.stable_after_s:
            self._deaths = 0
        delay = min(self.first_delay_s * 2.0**self._deaths, self.max_delay_s)
        # Beyond the maximum further doubling changes nothing, and 2**n must not overflow for a process dying for days.
        self._deaths = min(self._deaths + 1, 64)
        return delay
