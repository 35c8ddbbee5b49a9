"""Who is told that a device's weights are lost with their owner: the worker process, which then starts again."""

from __future__ import annotations

from collections.abc import Callable

from omniflow_workers.weights.errors import WeightsLost

Told = Callable[[], None]

_listeners: list[Callable[[WeightsLost], None]] = []


def when_lost(listener: Callable[[WeightsLost], None]) -> None:
    """From now on `listener` is called when weights that this process had opened may not be read any more."""
    _listeners.append(listener)


def tell(fingerprint: str) -> None:
    """Tells all listeners."""
    error = WeightsLost(fingerprint)
    for listener in _listeners:
        listener(error)
