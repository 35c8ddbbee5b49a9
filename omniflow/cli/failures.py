"""From exceptions to one message on standard error and an exit status."""

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")


def reports_failures(command: Callable[P, R]) -> Callable[P, R]:
    """Wraps a command: an `OmniFlowError` becomes its text and its exit status, Ctrl-C becomes 130.

    With the command's `as_json` the error is a JSON object on standard output instead, for scripts.
    """

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (KeyboardInterrupt, Exception) as error:
            status = _report(error, bool(kwargs.get("as_json")))
            if status is None:
                raise
            raise typer.Exit(status) from None

    return wrapped


def _report(error: BaseException, as_json: bool) -> int | None:
    """The exit status; None for a defect, whose traceback is the best report."""
    from omniflow.cli.exit_codes import ExitCode, exit_code_of
    from omniflow.errors import OmniFlowError

    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    if isinstance(error, BrokenPipeError):  # `omniflow jobs | head`
        sys.stderr.close()
        return ExitCode.OK
    if not isinstance(error, OmniFlowError):
        return None
    if as_json:
        sys.stdout.write(json.dumps({"error": error_fields(error)}) + "\n")
    else:
        sys.stderr.write(f"error: {error}\n")
    return exit_code_of(error)


def error_fields(error: Exception) -> dict[str, str]:
    """The error for scripts: its parts that are not empty."""
    names = ("code_name", "message", "field", "node", "worker", "cause", "cure")
    parts = {name.removesuffix("_name"): str(getattr(error, name, "")) for name in names}
    return {name: text for name, text in parts.items() if text}
