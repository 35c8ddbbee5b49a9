"""Which process is meant: a pid alone may name another one tomorrow."""

import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "OMNIFLOW_RUN"
"""Environment variable that every process of a cluster carries: the run folder it belongs to."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, immune to the reuse of its pid."""

    pid: int
    started: int
    """Clock ticks between the machine's boot and the start of the process."""
    boot: str
    """Which boot of the machine."""

    @staticmethod
    def of(pid: int) -> "ProcessIdentity | None":
        """The process that has this pid now; None when there is none (a zombie counts as none)."""
        fields = _stat(pid)
        return ProcessIdentity(pid, int(fields[19]), boot_id()) if fields and fields[0] != "Z" else None

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessIdentity.of(self.pid) == self

    @property
    def has_pid(self) -> bool:
        """Whether its pid still names this very process, if only because its last threads have not ended yet."""
        fields = _stat(self.pid)
        return bool(fields) and (int(fields[19]), boot_id()) == (self.started, self.boot)

    def send(self, number: signal.Signals) -> bool:
        """Signals this very process; False when it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # Between opening and signalling the descriptor names one process, whatever becomes of the pid.
            if not self.alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)


def boot_id() -> str:
    """Changes with every boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def marked_with(run: Path) -> Iterator[ProcessIdentity]:
    """Processes of this user that were started for this run folder, whoever their parent is now."""
    mark = f"{MARK}={run}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environment = Path(entry.path, "environ").read_bytes()
        except OSError:  # another user's, or gone
            continue
        if mark in environment.split(b"\0") and (found := ProcessIdentity.of(int(entry.name))):
            yield found


def wait_for_end(process: ProcessIdentity, timeout_s: float) -> bool:
    """Blocks until that very process has ended; False when it still runs after the time-out."""
    deadline = time.monotonic() + timeout_s
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # It may be a zombie already while threads of it still hold its files, and so its lock on the run folder.
        if not process.has_pid:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(descriptor)


def _stat(pid: int) -> list[str]:
    """Fields 3 and on of /proc/PID/stat: what follows the command's name, which may hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
