"""What of a job's results may come to this client, who reads it, and what the scheduler has to hear of it (rule 10)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omniflow.client.window import Extent, Inflow


@dataclass(frozen=True, slots=True)
class Allowance:
    """How far one result may come, from where the stream that brings it began; `unread`: nobody reads it for now."""

    port: int
    extent: Extent
    unread: bool


class Intake:
    """Of one job. `tell` is called with the index of a result when its `allowance` has changed by enough."""

    def __init__(self, window: Extent) -> None:
        self.tell: Callable[[int], None] | None = None
        self._window = window
        self._inflows: list[Inflow] = []
        self._readers = 0
        # Of the readers, those who take in whatever comes.
        self._gatherers = 0
        # Who waits for progress, and for the end with it.
        self._followers = 0
        self._closed = False

    def open(self, ports: int) -> None:
        """The job has so many results."""
        if not self._inflows:
            self._inflows = [Inflow(self._window) for _ in range(ports)]

    def close(self) -> None:
        """Everything has come."""
        self._closed = True

    # Frames.

    def arrived(self, port: int, size: int) -> None:
        self._inflows[port].come(size)
        if self._gatherers or not self._readers:
            self._settle(port)

    def dropped(self, port: int, size: int) -> None:
        """It had come before: it takes no room."""
        inflow = self._inflows[port]
        inflow.come(size)
        inflow.take(size)

    def handed_out(self, port: int, size: int) -> None:
        if self._inflows[port].take(size):
            self._say(port)

    # Readers.

    @contextmanager
    def reading(self, *, gathers: bool = False) -> Iterator[None]:
        """Somebody reads, and slows whoever makes the results; one who `gathers` wants all of them at once."""
        self._readers += 1
        self._gatherers += gathers
        self._settle_all()
        try:
            yield
        finally:
            self._readers -= 1
            self._gatherers -= gathers
            self._settle_all()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Somebody waits for the job's end: while nobody reads, all that comes is taken in."""
        self._followers += 1
        self._settle_all()
        try:
            yield
        finally:
            self._followers -= 1
            self._settle_all()

    @property
    def is_behind(self) -> bool:
        """Who reads has a window of some result unread."""
        return self._readers > 0 and any(inflow.is_full for inflow in self._inflows)

    # What whoever brings them has to know.

    def allowance(self, port: int) -> Allowance:
        """For the scheduler, who is told now."""
        inflow = self._inflows[port]
        return Allowance(port, inflow.told(), inflow.unread)

    def allowances(self) -> list[Allowance]:
        return [self.allowance(port) for port in range(len(self._inflows))]

    def resume(self) -> tuple[Extent, list[Allowance]]:
        """Another stream brings the rest of it: what may come of every result, and where more may."""
        if not self._inflows:
            return self._window, []
        for inflow in self._inflows:
            inflow.resume()
            self._note_unread(inflow)
        allowed = self.allowances()
        least = Extent(
            min(allowance.extent.frames for allowance in allowed), min(allowance.extent.bytes for allowance in allowed)
        )
        return least, [allowance for allowance in allowed if allowance.unread or allowance.extent != least]

    def _settle_all(self) -> None:
        for port in range(len(self._inflows)):
            self._settle(port)

    def _settle(self, port: int) -> None:
        inflow = self._inflows[port]
        if self._gatherers or (self._followers and not self._readers):
            inflow.release()
        if self._note_unread(inflow) or inflow.is_due:
            self._say(port)

    def _note_unread(self, inflow: Inflow) -> bool:
        """Whether that has changed. As long as there is room nobody needs to know."""
        known, inflow.unread = inflow.unread, not self._readers and inflow.is_spent
        return known != inflow.unread

    def _say(self, port: int) -> None:
        if self.tell is not None and not self._closed:
            self.tell(port)
