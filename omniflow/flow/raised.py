"""What a flow function raises while it is recorded, said in the words of flows."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from omniflow.roles.description import bundle_values, is_bundle

_UNBOUND = re.compile(r"cannot access (?:local|free) variable '(\w+)'")
_CALL = re.compile(r"^(?:[\w.]+\.)?(\w+)\(\) (?:missing|got|takes)")
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


@dataclass(frozen=True, slots=True)
class Raised:
    """`code`, `message` and `cure` as in `Problem`."""

    code: str
    message: str
    cure: str


def explained(error: Exception, flow: str) -> Raised:
    """Why recording the flow came to nothing, and how to mend it."""
    match error:
        case NameError() if unbound := _UNBOUND.search(str(error)):
            return Raised(
                "used-before-made",
                f"`{unbound[1]}` is used before it is made",
                "make it on a line before this one; what goes round in a circle is a `loop(body, start=..., "
                "until=..., max_rounds=...)`, whose body gets what the last round returned",
            )
        case RecursionError():
            return Raised(
                "endless-recording",
                f"recording `{flow}` never ends: a function calls itself, and a flow is one graph of fixed size",
                "repeat with `loop(body, start=..., until=..., max_rounds=...)`; once for each item: `each(stream)`",
            )
        case AttributeError() if is_bundle(error.obj):
            fields = list(bundle_values(error.obj))
            return Raised(
                "unknown-field",
                f"{type(error.obj).__name__} has no field `{error.name}`",
                _meant(error.name, fields) + f"its fields: {', '.join(f'`{name}`' for name in fields)}",
            )
        case TypeError() if call := _CALL.match(str(error)):
            called = _named(call[1], error.__traceback__)
            if called is not None:
                return _wrong_call(str(error), call[1], called)
    return Raised("raised", f"recording raised {type(error).__name__}: {error}", "correct this line")


def _wrong_call(message: str, name: str, called: Callable[..., Any]) -> Raised:
    signature = inspect.signature(called)
    unexpected = _UNEXPECTED.search(message)
    hint = _meant(unexpected[1], list(signature.parameters)) if unexpected else ""
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    shown = signature.replace(parameters=bare, return_annotation=signature.empty)
    return Raised("wrong-call", message, f"{hint}its signature: {name}{shown}")


def _named(name: str, trace: TracebackType | None) -> Callable[..., Any] | None:
    """What a function is called on the way to where it failed; None when the name means nothing there."""
    found = None
    while trace is not None:
        frame = trace.tb_frame
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        if callable(value) and inspect.isfunction(inspect.unwrap(value)):
            found = value
        trace = trace.tb_next
    return found


def _meant(name: str | None, known: list[str]) -> str:
    close = difflib.get_close_matches(name or "", known, n=1)
    return f"did you mean `{close[0]}`? " if close else ""
