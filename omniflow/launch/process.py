"""One process of the cluster through all its lives: spawned, watched, started again with back-off, ended."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omniflow.launch.backoff import Backoff
from omniflow.launch.identity import ProcessIdentity
from omniflow.launch.launcher import Kind, ProcessState, ProcessStatus
from omniflow.launch.logs import LogPump

_TRAMPOLINE = Path(__file__).with_name("child.py")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run, and how to end it."""

    name: str
    kind: Kind
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Set beside the supervisor's own environment; None removes a variable."""
    sockets: tuple[Path, ...] = ()
    """Removed before each start: a process that was killed leaves its own behind."""
    stop_timeout_s: float = 35.0
    """From SIGTERM to SIGKILL."""
    may_leave: bool = False
    """It stays away after ending with code 0: a worker that was drained."""


class ManagedProcess:
    """Runs a `ProcessSpec` until `stop`. `on_change` hears of every start and end."""

    def __init__(self, spec: ProcessSpec, backoff: Backoff, on_change: Callable[["ManagedProcess"], None]) -> None:
        self.spec = spec
        self.log = LogPump(spec.log)
        self.died = asyncio.Event()
        """Set at the first end that nobody asked for, or when it could not be started."""
        self.restart_delay_s = 0.0
        self._backoff = backoff
        self._on_change = on_change
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._state = ProcessState.STOPPED
        self._restarts = 0
        self._last_exit = ""

    @property
    def status(self) -> ProcessStatus:
        """How it stands now."""
        return ProcessStatus(
            name=self.spec.name,
            kind=self.spec.kind,
            state=self._state,
            log=self.spec.log,
            process=self._identity,
            restarts=self._restarts,
            last_exit=self._last_exit,
        )

    async def run(self) -> None:
        """Returns when it was stopped, or has left for good."""
        loop = asyncio.get_running_loop()
        try:
            while not self._stopping.is_set():
                born = loop.time()
                self._last_exit = await self._live(loop)
                if self._stopping.is_set():
                    break
                self.died.set()
                if self.spec.may_leave and self._last_exit == _describe(0):
                    self._change(ProcessState.LEFT)
                    return
                self.restart_delay_s = self._backoff.next_delay(loop.time() - born)
                self._change(ProcessState.WAITING)
                await self._pause(self.restart_delay_s)
                self._restarts += 1
            self._change(ProcessState.STOPPED)
        finally:
            self.log.close()
            self._ended.set()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to its whole group when it does not end in time."""
        self._stopping.set()
        if self._state is ProcessState.STOPPED and self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.spec.stop_timeout_s):
                await self._ended.wait()
        except TimeoutError:
            self.kill()
            await self._ended.wait()

    def kill(self) -> None:
        """Ends it and its children at once; it is not started again."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    async def _live(self, loop: asyncio.AbstractEventLoop) -> str:
        """One life; returns how it ended."""
        for path in self.spec.sockets:
            path.unlink(missing_ok=True)
        try:
            process, pipe = self._spawn()
        except OSError as error:
            return f"could not be started: {error}"
        self._process, self._identity = process, ProcessIdentity.of(process.pid)
        self.log.attach(loop, pipe)
        self._change(ProcessState.RUNNING)
        try:
            await _exit_of(loop, process.pid)
        finally:
            # Until it is reaped its pid, and so its group's number, cannot name anything else.
            _kill_group(process.pid)
            code = process.wait()
            self.log.detach(loop, pipe)
            self._process = self._identity = None
        return _describe(code)

    def _spawn(self) -> tuple[subprocess.Popen[bytes], int]:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            process = subprocess.Popen(  # noqa: S603 the operator's own command line
                [sys.executable, "-I", "-S", str(_TRAMPOLINE), str(os.getpid()), *self.spec.argv],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env={name: value for name, value in {**os.environ, **self.spec.env}.items() if value is not None},
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return process, reading

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if number is signal.SIGKILL:
            _kill_group(self._process.pid)
        else:
            self._process.send_signal(number)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _change(self, state: ProcessState) -> None:
        self._state = state
        self._on_change(self)


async def _exit_of(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Returns when our child `pid` has ended and waits to be reaped."""
    descriptor = os.pidfd_open(pid)
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _describe(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
