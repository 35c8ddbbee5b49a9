"""Ends what a killed supervisor left behind: processes, sockets, state."""

import signal
from pathlib import Path

from omniflow.launch.identity import marked_with, wait_for_end
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
