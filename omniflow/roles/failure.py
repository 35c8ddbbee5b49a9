"""How a role says no, and what its exceptions become on the wire."""

from __future__ import annotations

import re
import traceback
from collections.abc import Container

from omniflow.errors import InvalidArgument, JobError, NotNow, OmniFlowError, RoleFailed

_CAUSE_LINES = 12


class QueueClosed(Exception):  # noqa: N818  no failure: the worker leaves
    """No further activation will come."""


class RoleError(RoleFailed):
    """A role's own failure in its own words: `raise RoleError("the codec has no voice 7", cure="use 0 to 6")`."""


class InvalidInput(InvalidArgument):
    """The input or parameter `field` is bad: `raise InvalidInput("image", "shows no text", cure="…")`."""

    def __init__(self, field: str, message: str, *, cause: str = "", cure: str = "") -> None:
        super().__init__(message, field=field, cause=cause, cure=cure)


def failure_of(error: BaseException, inputs: Container[str]) -> OmniFlowError:
    """The typed error that ends an activation.

    A typed error that is about the job passes as it is. `InvalidArgument` does so only when it names one of `inputs`:
    otherwise the role tripped over a value of its own making, which is no fault of whoever sent the job.
    """
    if isinstance(error, JobError | NotNow):
        return error
    if isinstance(error, InvalidArgument) and re.split(r"[.\[]", error.field)[0] in inputs:
        return error
    words = "".join(traceback.format_exception(error)).rstrip().splitlines()
    return RoleFailed(
        f"the role raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'without a message'}",
        cause="\n".join(words[-_CAUSE_LINES:]),
        cure="the worker's log has the whole traceback",
    )
