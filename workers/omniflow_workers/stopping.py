"""The last steps of a worker, in the order that keeps others from its memory while it still writes there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from omniflow_workers.host import LoadedRole

log = logging.getLogger(__name__)


class Closes(Protocol):
    """The worker's data path: `Node`."""

    def close(self) -> None: ...


class Lends(Closes, Protocol):
    """The worker's data plane."""

    def stop_lending(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Serving:
    """A role and the threads that run it."""

    loaded: LoadedRole
    threads: Sequence[threading.Thread]

    @property
    def runs(self) -> bool:
        """Whether one of them is still at work."""
        return any(thread.is_alive() for thread in self.threads)


def stop(node: Closes, roles: Sequence[Serving], data_plane: Lends | None, patience_s: float) -> None:
    """Lends no more, then unloads the roles whose threads end within `patience_s` seconds, then gives back what is
    borrowed.

    A role that still runs is not unloaded: what it writes to would be handed to another worker at once. The kernel lets
    go of it when the process, and with it the thread, has ended.
    """
    node.close()
    if data_plane is not None:
        data_plane.stop_lending()
    until = time.monotonic() + patience_s
    for thread in [thread for role in roles for thread in role.threads]:
        thread.join(timeout=max(0.0, until - time.monotonic()))
    for role in roles:
        if role.runs:
            log.warning("role %s is still at work: what it holds is free when this process has ended", role.loaded.name)
        else:
            role.loaded.role.unload()
    if data_plane is not None:
        data_plane.close()
