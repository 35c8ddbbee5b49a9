"""Ends what a killed supervisor left behind: processes, sockets, state."""

import os
import select
import signal
import time
from pathlib import Path

from omniflow.launch.identity import ProcessIdentity, marked_with
from omniflow.launch.sockets import remove_socket_folder
from omniflow.launch.state import read_state, remove_state


def sweep(run: Path) -> list[int]:
    """Kills every process of this run folder; removes its sockets and state. The caller holds the `RunLock`.

    The kernel has ended the direct children with their supervisor. Theirs, and any whose end is still under way, carry
    the run folder in their environment and are found by it; those that dropped it, by the state file. Returns pids.
    """
    state = read_state(run)
    known = [process.process for process in state.processes if process.process] if state else []
    strays = {found.pid: found for found in (*known, *marked_with(run)) if found.alive}
    for stray in strays.values():
        stray.send(signal.SIGKILL)
    for stray in strays.values():
        wait_for_end(stray, timeout_s=10)
    if state and state.sockets:
        remove_socket_folder(state.sockets)
    remove_socket_folder(run / "sockets")
    remove_state(run)
    return sorted(strays)


def wait_for_end(process: ProcessIdentity, timeout_s: float) -> bool:
    """Blocks until that very process has ended; False when it still runs after the time-out."""
    deadline = time.monotonic() + timeout_s
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.alive:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(descriptor)
