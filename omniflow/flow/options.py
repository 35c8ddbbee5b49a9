"""`options`: what one node asks for beside its method's own options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from omniflow.flow.admission import recording
from omniflow.flow.definition import Flow
from omniflow.flow.settings import NodeSettings
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.use import MethodHandle
from omniflow.roles.description import bundle_values, is_bundle

P = ParamSpec("P")
R = TypeVar("R")


def options(
    method: Callable[P, R],
    /,
    *,
    max_attempts: int | None = None,
    deadline_share: float | None = None,
    near: Any = None,
) -> Callable[P, R]:
    """The same method with options for this one use: `options(tts.speak, max_attempts=1, near=answer)(answer)`.

    `max_attempts`: how often it may be tried before the job fails; 1 is at most once. `deadline_share`: the part of
    the job's deadline that one activation may take, above 0 and at most 1. `near`: a result (or a tuple of several);
    workers that made it are preferred, e.g. for what they hold in memory.
    """
    trace, source = recording("options")

    def refuse(code: str, message: str, cure: str) -> None:
        trace.problem(code, message, cure, source)

    if isinstance(method, Flow):
        refuse(
            "bad-option",
            f"options(...) is for one node, and `{method.name}` is a flow of several",
            f"give them to methods of roles, inside `{method.name}`: options(llm.chat, ...)(...)",
        )
        return method
    if not isinstance(method, MethodHandle):
        refuse("bad-option", "options(...) wants a method of a role's handle", "write options(llm.chat, ...)(...)")
        return method
    if max_attempts is not None and (not isinstance(max_attempts, int) or max_attempts < 1):
        refuse(
            "bad-option",
            f"max_attempts of `{method!r}` is {max_attempts!r}, so it could never run",
            "1 means at most once, 3 up to two retries; leave it out for the cluster's default",
        )
        max_attempts = None
    if deadline_share is not None and not 0 < deadline_share <= 1:
        refuse(
            "bad-option",
            f"deadline_share of `{method!r}` is {deadline_share!r}, and it is a part of the job's deadline",
            "give a number above 0 and at most 1, e.g. 0.5",
        )
        deadline_share = None
    settings = NodeSettings(max_attempts, deadline_share or 0.0, _makers(near, refuse, repr(method)))
    return cast(Callable[P, R], method.with_settings(settings))


def _makers(near: Any, refuse: Callable[[str, str, str], None], method: str) -> tuple[Symbol, ...]:
    """The symbols of results; those of inputs are nowhere in particular."""
    if near is None:
        return ()
    if is_bundle(near):
        values = list(bundle_values(near).values())
    else:
        values = list(near) if isinstance(near, tuple) else [near]
    made = [value for value in values if isinstance(value, Symbol) and _has_maker(value)]
    if len(made) < len(values):
        wrong = next(value for value in values if not (isinstance(value, Symbol) and _has_maker(value)))
        shown = view(wrong).label if isinstance(wrong, Symbol) else repr(wrong)
        refuse(
            "bad-option",
            f"near of `{method}` is {shown}, which no worker makes",
            "pass a result of a node: the workers that make it are preferred",
        )
    return tuple(made)


def _has_maker(symbol: Symbol) -> bool:
    origin = view(symbol).origin
    return origin is None or origin.node is not None
