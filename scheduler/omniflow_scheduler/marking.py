"""What the hub wants to have marked in etcd of its standby, done in a thread of its own."""

import logging
import threading

from omniflow.registry import Election, RegistryUnreachable
from omniflow_core import Hub

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
# Between two tries while etcd does not answer.
PAUSE_S = 0.2


class Marking:
    """One question at a time, in the hub's order, for as long as it leads."""

    def __init__(self, hub: Hub, election: Election) -> None:
        self._hub = hub
        self._election = election
        self._over = threading.Event()
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="mark standby", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, after the question that is under way. Blocks."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            mark = self._hub.next_mark(LOOK_EVERY_S)
            if mark is not None:
                ticket, standby = mark
                self._hub.marked(ticket, self._mark(standby))

    def _mark(self, standby: str | None) -> str:
        try:
            leads = self._election.mark(standby)
        except RegistryUnreachable as error:
            if not self._warned:
                log.warning("the standby cannot be marked %s: %s", _words(standby), error)
            self._warned = True
            self._over.wait(PAUSE_S)
            return "unknown"
        self._warned = False
        if not leads:
            return "superseded"
        log.info("the standby is marked %s", _words(standby))
        return "done"


def _words(standby: str | None) -> str:
    return "in sync" if standby else "out of sync"
