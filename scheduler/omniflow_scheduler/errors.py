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
    STOPPED_AT_ONCE = 130


class PortInUse(InvalidArgument):
    """Another process listens where the scheduler should."""

    def __init__(self, listen: str, cause: str) -> None:
        super().__init__(
            f"the scheduler cannot listen on {listen}",
            field="listen",
            cause=cause,
            cure="is the cluster up already (`omniflow status`)? Else set `listen` to a free port of this host",
        )
