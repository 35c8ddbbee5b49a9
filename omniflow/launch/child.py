"""Becomes another program, which the kernel kills when the supervisor dies: `child.py PARENT_PID ARGV...`

This is a program of its own, not a `preexec_fn`: the supervisor has threads (gRPC's), and Python code between fork and
exec in a process with threads may dead-lock. The request survives exec. It is bound to the parent *thread*: the
supervisor spawns from its main thread, which lives as long as the process.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Asks for SIGKILL at the parent's death, then executes the rest of the command line."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
    try:
        os.execvp(program[0], program)  # noqa: S606 no shell is meant
    except OSError as error:
        sys.exit(f"cannot execute {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
