"""Notices a role that never comes back. No thread can be ended from outside: only its process can."""

import threading
import time
from collections.abc import Callable

from omniflow.errors import RoleFailed
from omniflow.roles import Activation

# While something runs, it is looked at this often; an idle role costs nothing.
LOOK_EVERY_S = 0.5


class RoleStuck(RoleFailed):
    """Every thread of the role is held by an activation whose job was over long ago."""


class Slots:
    """What each thread of a role runs now."""

    def __init__(self, count: int) -> None:
        self._running: list[Activation | None] = [None] * count
        self._busy = threading.Event()

    def enter(self, slot: int, activation: Activation) -> None:
        self._running[slot] = activation
        if not self._busy.is_set():
            self._busy.set()

    def leave(self, slot: int) -> None:
        self._running[slot] = None

    def wait_busy(self) -> None:
        """Until something runs."""
        self._busy.clear()
        if all(activation is None for activation in self._running):
            self._busy.wait()

    @property
    def all_dead(self) -> bool:
        """Whether no thread is left that could run anything: each runs for a job that is over."""
        return all(activation is not None and activation.cancelled for activation in list(self._running))

    @property
    def methods(self) -> list[str]:
        return sorted({activation.method for activation in list(self._running) if activation is not None})


def watch(role: str, slots: Slots, after_s: float, broken: Callable[[BaseException], None]) -> None:
    """Calls `broken` with `RoleStuck` when no thread has come back for `after_s` seconds, and returns."""
    since: float | None = None
    while True:
        slots.wait_busy()
        time.sleep(LOOK_EVERY_S)
        if not slots.all_dead:
            since = None
            continue
        now = time.monotonic()
        since = since if since is not None else now
        if now - since >= after_s:
            broken(_stuck(role, slots, after_s))
            return


def _stuck(role: str, slots: Slots, after_s: float) -> RoleStuck:
    methods = ", ".join(slots.methods)
    return RoleStuck(
        f"role {role!r} does not come back: all its threads have been in {methods} for {after_s:g} s after their jobs",
        cure="let its methods look at `current().cancelled` between steps; if one step takes that long, raise "
        "`stuck_after_s`",
    )
