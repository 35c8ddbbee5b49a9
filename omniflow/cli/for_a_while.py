"""A cluster that lives no longer than the command that started it, however that command ends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import typer

from omniflow.config import ClusterConfig
from omniflow.launch import ClusterState, LocalLauncher, Observer, StopTimeout, run_folder

_STOP_TIMEOUT_S = 60.0
_SIGNAL_STATUS = 128  # as shells count


@contextmanager
def cluster_for_a_while(config: ClusterConfig, observer: Observer) -> Iterator[ClusterState]:
    """Starts the cluster and ends it with the block, on SIGTERM, SIGHUP and Ctrl-C too. Main thread only.

    The run folder is the caller's alone: what an earlier one left there (after `kill -9`) is ended first.
    Raises `LaunchError`; `typer.Exit` with 128 + the signal's number.
    """
    run = run_folder(config)
    with _SignalsAsCtrlC() as signals:
        _end(run, observer)
        try:
            yield LocalLauncher().start(config, observer)
        finally:
            signals.hold()
            _end(run, observer)


def _end(run: Path, observer: Observer) -> None:
    launcher = LocalLauncher()
    try:
        launcher.stop(run, timeout_s=_STOP_TIMEOUT_S, force=False, observer=observer)
    except StopTimeout:
        launcher.stop(run, timeout_s=_STOP_TIMEOUT_S, force=True, observer=observer)


class _SignalsAsCtrlC:
    """SIGTERM and SIGHUP do what Ctrl-C does: they would end Python at once, without any `finally`."""

    def __init__(self) -> None:
        self._held = False
        self._told = 0
        self._taken: list[signal.Signals] = []

    def hold(self) -> None:
        """From now on they interrupt nothing: what runs is the orderly end already."""
        self._held = True

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has SIGHUP ignored, and means it
                signal.signal(number, self._hear)
                self._taken.append(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)
        if self._told:
            raise typer.Exit(_SIGNAL_STATUS + self._told) from None

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._told:  # a closing terminal sends more than one
            return
        self._told = number
        if self._held:
            return
        # asyncio has a handler of its own for Ctrl-C, which cancels the main task wherever the loop is just now.
        ctrl_c = signal.getsignal(signal.SIGINT)
        if callable(ctrl_c):
            ctrl_c(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt
