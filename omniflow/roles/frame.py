"""Frames of resumable methods: a value, and what a later attempt needs to go on after it (rule 12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from omniflow.v1.value_pb2 import FrameState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatefulFrame:
    """What `with_state` makes."""

    value: Any
    state: bytes


def with_state(value: T, state: bytes) -> T:
    """`value` as a frame of a resumable method, for `yield` and `emit`.

    `state`: what an attempt that takes over after this frame must know beyond the states before it; nobody else ever
    sees it. To a type checker it is the value, which is what readers get.
    """
    return cast(T, StatefulFrame(value, state))


def state_bytes(state: bytes) -> bytes:
    """What follows a serialized Value that carries `state`."""
    return FrameState(state=state).SerializeToString()


def states_of(payloads: Iterable[bytes]) -> tuple[bytes, ...]:
    """The states that frames carry; empty for one without."""
    return tuple(FrameState.FromString(payload).state for payload in payloads)
