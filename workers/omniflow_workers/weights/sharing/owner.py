"""The owner of a piece: hands it to whoever asks, for as long as it or any asker needs it."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from omniflow_workers.weights.sharing import wire
from omniflow_workers.weights.sharing.memory import SharedMemory

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

_ANSWER_S = 5.0
"""An asker that takes so long to take a short message hangs."""


class Owner:
    """Serves `piece` at `listener`, on a thread of its own, until nobody needs it; then frees it and calls `ended`."""

    def __init__(
        self, memory: SharedMemory, piece: torch.Tensor, listener: socket.socket, ended: Callable[[Owner], None]
    ) -> None:
        self.data = piece
        self._memory = memory
        self._listener = listener
        self._ended = ended
        self._askers: set[socket.socket] = set()
        self._holders = 1
        self._over = False
        self._lock = threading.Lock()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="weights-owner", daemon=True)
        self._thread.start()

    def hold_again(self) -> bool:
        """This process needs it once more. False when it is gone already."""
        with self._lock:
            if self._over:
                return False
            self._holders += 1
            return True

    def close(self) -> None:
        """This process needs it no more; others may go on."""
        with self._lock:
            self._holders -= 1
            if not self._over:
                self._wake.send(b"x")

    def _serve(self) -> None:
        while not self._end():
            for key, _events in self._selector.select():
                if key.fileobj is self._listener:
                    self._answer()
                elif key.fileobj is self._woken:
                    self._woken.recv(64)
                elif isinstance(key.fileobj, socket.socket):
                    self._hear(key.fileobj)

    def _answer(self) -> None:
        asker, _address = self._listener.accept()
        asker.settimeout(_ANSWER_S)
        try:
            if not wire.is_ours(asker):
                raise PermissionError("another user's process asks for weights")
            wire.send(asker, self._memory.export(self.data), self.data.nbytes)
        except (OSError, RuntimeError):  # RuntimeError: torch's, when the device cannot export
            log.warning("weights could not be handed to another worker, which loads its own", exc_info=True)
            asker.close()
            return
        self._askers.add(asker)
        self._selector.register(asker, selectors.EVENT_READ)

    def _hear(self, asker: socket.socket) -> None:
        """Askers say nothing: what comes is their end."""
        try:
            if asker.recv(64):
                return
        except OSError:
            pass
        self._selector.unregister(asker)
        self._askers.discard(asker)
        asker.close()

    def _end(self) -> bool:
        """Frees the piece when nobody needs it. Who asks right now is refused, and loads it himself."""
        with self._lock:
            if self._holders or self._askers:
                return False
            self._over = True
            del self.data
        self._selector.close()
        for each in (self._listener, self._wake, self._woken):
            each.close()
        self._ended(self)
        return True
