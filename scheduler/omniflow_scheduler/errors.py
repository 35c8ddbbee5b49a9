"""Why the scheduler's process ends, and with which status."""

from enum import IntEnum

from omniflow.errors import InvalidArgument


class ExitCode(IntEnum):
    """The process's exit status."""

    DRAINED = 0  # also: another scheduler leads
    FAILED = 1
    BAD_CONFIG = 2
    PORT_IN_USE = 3
    REGISTRY_UNREACHABLE = 4
    BAD_JOURNAL = 5
    STOPPED_AT_ONCE = 130


class BadJournal(InvalidArgument):
    """The journal is damaged, in use, or not to be read: starting without it would lose jobs in silence."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause, field="journal", cure="restore the folder, or move it away to start without its jobs")


class PortInUse(InvalidArgument):
    """Another process listens where the scheduler should."""

    def __init__(self, listen: str, cause: str) -> None:
        super().__init__(
            f"the scheduler cannot listen on {listen}",
            field="listen",
            cause=cause,
            cure="is the cluster up already (`omniflow status`)? Else set `listen` to a free port of this host",
        )
