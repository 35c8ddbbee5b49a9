"""From the hub to the calls of one job: one descriptor for all of them, one wake-up for each that has news."""

import asyncio
import logging
from collections.abc import AsyncIterator

from omniflow_core import Hub

log = logging.getLogger(__name__)

# About the most that one message to a client holds; a single larger frame travels whole.
MAX_BATCH_BYTES = 256 * 1024


class Outbox:
    """Hands out the hub's answers. Belongs to one event loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ready: dict[int, asyncio.Event] = {}
        self._finished = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(hub.fileno(), self._wake)

    def open(self) -> int:
        """A new client of the hub."""
        client = self._hub.open_client()
        self._ready[client] = asyncio.Event()
        if self._finished:
            self._ready[client].set()
        return client

    def close(self, client: int) -> None:
        """The client's call is over, however it ended."""
        del self._ready[client]
        self._hub.close_client(client)

    async def batches(self, client: int) -> AsyncIterator[bytes]:
        """Serialized EventBatches, for as long as the caller wants them; they end after `finish`."""
        ready = self._ready[client]
        while True:
            await ready.wait()
            ready.clear()
            while batch := self._hub.take(client, MAX_BATCH_BYTES):
                yield batch
            if self._finished:
                return

    def finish(self) -> None:
        """The hub is closed: what it still has for its clients is handed out, and that is the end."""
        self._finished = True
        self._loop.remove_reader(self._hub.fileno())
        for ready in self._ready.values():
            ready.set()

    def _wake(self) -> None:
        for client in self._hub.ready_clients():
            ready = self._ready.get(client)
            if ready is not None:
                ready.set()
