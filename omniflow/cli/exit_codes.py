"""What `omniflow` returns, so that scripts can tell a bad request from a busy cluster."""

from enum import IntEnum

from omniflow.errors import DeadlineExceeded, NotNow, OmniFlowError, RequestError, Unavailable
from omniflow.launch.errors import NoCluster


class ExitCode(IntEnum):
    """Exit statuses of every command."""

    OK = 0
    FAILED = 1
    """The job ran and failed or was cancelled; the cluster did not start or stop."""
    USAGE = 2
    """The command, its input or a file is wrong: the same again fails again."""
    UNREACHABLE = 3
    """No cluster is there."""
    REFUSED = 4
    """The cluster cannot take the job now: it is full, or a role has no worker. Try again later."""
    DEADLINE = 124
    """The job's deadline passed (as `timeout` returns)."""
    INTERRUPTED = 130
    """Ctrl-C."""


def exit_code_of(error: OmniFlowError) -> ExitCode:
    """The status for an error."""
    match error:
        case NoCluster() | Unavailable():
            return ExitCode.UNREACHABLE
        case RequestError():
            return ExitCode.USAGE
        case NotNow():
            return ExitCode.REFUSED
        case DeadlineExceeded():
            return ExitCode.DEADLINE
        case _:
            return ExitCode.FAILED
