"""Signals as two events: the first asks to drain, the second to end at once."""

import asyncio
import logging
import signal
from collections.abc import Iterable

log = logging.getLogger(__name__)


class StopSignals:
    """`first` and `second` are set by the first and the second signal."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def install(self, signals: Iterable[signal.Signals]) -> None:
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, self._receive, number)

    def _receive(self, number: signal.Signals) -> None:
        log.info("received %s", number.name)
        (self.second if self.first.is_set() else self.first).set()
