"""Why a role does not load, in one error that names the role and the cure, whatever was raised."""

import errno
import traceback

from omniflow.errors import OmniFlowError

_CAUSE_LINES = 12


class RoleNotLoaded(OmniFlowError):  # noqa: N818 named after what happened, like the others
    """A worker cannot start: a role's class or its `load` raised."""


def not_loaded(role: str, field: str, error: Exception) -> RoleNotLoaded:
    """`role`: what the worker calls it; `field`: its place in the configuration."""
    if isinstance(error, OmniFlowError):
        within = f"{field}.{error.field}".rstrip(".")
        return RoleNotLoaded(
            f"role {role!r} does not load: {error.message}", field=within, cause=error.cause, cure=error.cure
        )
    return RoleNotLoaded(
        f"role {role!r} does not load: {_first_line(error)}", field=field, cause=_cause(error), cure=_cure(error)
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _cause(error: Exception) -> str:
    """Where in the role it happened. A missing package or a full disk says all in its own line."""
    if isinstance(error, ImportError | OSError):
        return ""
    words = "".join(traceback.format_exception(error)).rstrip().splitlines()
    return "\n".join(words[-_CAUSE_LINES:])


def _cure(error: Exception) -> str:
    match error:
        case ImportError():
            return (
                "install what it needs in the worker's environment; for the roles that come with Omni-Flow: "
                "pip install 'omniflow-serving[demo]'"
            )
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return "free room on the disk, or set `cache:` in the cluster file to a folder that has room"
        case PermissionError() | OSError(errno=errno.EROFS):
            return "let this user write there, or set `cache:` in the cluster file to a folder of its own"
        case OSError():
            return "look at the file that it names, and at the role's `options` in the cluster file"
        case MemoryError():
            return "give the worker more memory, or the role a smaller model"
        case _:
            return "mend the role, or its `options` in the cluster file"
