"""`@method`: which functions of a role class flows may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload
from weakref import WeakKeyDictionary

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """`deterministic`: the same inputs, parameters and seed give the same frames, so a new attempt may go on where an
    earlier one stopped; `max_attempts`: 0 for the cluster's default; `resumable`: the frames of its one output, a
    stream, carry what a new attempt needs to go on after them (`with_state`), e.g. token ids."""

    deterministic: bool = True
    max_attempts: int = 0
    resumable: bool = False


_OPTIONS: WeakKeyDictionary[Callable[..., Any], MethodOptions] = WeakKeyDictionary()


@overload
def method(function: F, /) -> F: ...
@overload
def method(*, deterministic: bool = True, max_attempts: int = 0, resumable: bool = False) -> Callable[[F], F]: ...
def method(
    function: F | None = None, /, *, deterministic: bool = True, max_attempts: int = 0, resumable: bool = False
) -> F | Callable[[F], F]:
    """Publishes a function of a role class to flows: `@method`, or `@method(deterministic=False)`.

    `resumable`: yields `with_state(value, state)`, and begins after `current().resumed`.
    """
    options = MethodOptions(deterministic, max_attempts, resumable)

    def publish(published: F) -> F:
        _OPTIONS[published] = options
        return published

    return publish if function is None else publish(function)


def options_of(function: Callable[..., Any]) -> MethodOptions | None:
    """The options of a published function; None for any other."""
    return _OPTIONS.get(function)
