"""The scheduler while it does not lead: its journal follows the leader's."""

import logging
import threading

from omniflow.registry import Leader
from omniflow_core import CoreError, Standby

log = logging.getLogger(__name__)

# How long a stopping thread may wait for news that do not come.
LOOK_EVERY_S = 0.5


class StandingBy:
    """Follows whoever leads, until it is closed; what happens goes to the log from a thread of its own."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._log_news, name="standby news", daemon=True)
        self._thread.start()

    def follow(self, leader: Leader) -> None:
        """It leads now. May be called from any thread."""
        if not leader.journal_address:
            log.warning(
                "%s leads with term %d and lets nobody follow its journal: this scheduler cannot take over from it; "
                "both need `journal_listen`",
                leader.address,
                leader.term,
            )
            return
        try:
            self._standby.follow(leader.term, leader.journal_address)
        except CoreError as error:
            log.error("%s leads with term %d and cannot be followed: %s", leader.address, leader.term, error)

    def close(self) -> None:
        """Says goodbye and lets go of the journal. Blocks for a moment."""
        self._over.set()
        self._standby.close()
        self._thread.join()

    def _log_news(self) -> None:
        while not self._over.is_set():
            news = self._standby.news(LOOK_EVERY_S)
            if news is not None:
                log.info("standby: %s", news)
