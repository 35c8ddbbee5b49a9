"""A piece of memory that this process shares with others: it hands it out, or holds on to who does."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from typing import TYPE_CHECKING

from omniflow_workers.weights.sharing import wire

if TYPE_CHECKING:
    import torch

    from omniflow_workers.weights.sharing.memory import Piece

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""Who takes so long over one short message hangs."""
_RETRY_S = 0.02
_JOIN_S = 10.0


class SharedPiece:
    """`Placed`. Of all processes that have a piece, one owns its address and hands it out, the others hold a connection
    to it. When it goes, however it does, one of them takes its place: the memory lives as long as anybody has it.
    """

    def __init__(
        self, piece: Piece, address: str, *, listener: socket.socket | None = None, owner: socket.socket | None = None
    ) -> None:
        """With the `listener` this process hands out; with a connection to the `owner` another one does."""
        self._piece = piece
        self._address = address
        self._size = piece.data.nbytes
        self._closing = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listener = listener
        self._owner = owner
        self._askers: set[socket.socket] = set()
        for end in (listener, owner):
            if end is not None:
                self._selector.register(end, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="weights-shared", daemon=True)
        self._thread.start()

    @property
    def data(self) -> torch.Tensor:
        return self._piece.data

    def close(self) -> None:
        """This process needs it no more; others may go on."""
        self._closing.set()
        self._wake.send(b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._listener is None and self._owner is None:
                self._find_place()
                continue
            for key, _events in self._selector.select():
                if key.fileobj is self._listener:
                    self._answer()
                elif key.fileobj is not self._woken and isinstance(key.fileobj, socket.socket):
                    self._hear(key.fileobj)
        self._selector.close()
        for end in (self._listener, self._owner, *self._askers, self._wake, self._woken):
            if end is not None:
                end.close()
        self._piece.close()

    def _find_place(self) -> None:
        """The owner has gone: takes its place, or holds on to who was quicker."""
        self._listener = wire.bind(self._address)
        if self._listener is None:
            self._owner = self._held_on_to()
        found = self._listener or self._owner
        if found is None:
            self._closing.wait(_RETRY_S)
            return
        self._selector.register(found, selectors.EVENT_READ)

    def _held_on_to(self) -> socket.socket | None:
        owner = wire.connect(self._address)
        if owner is None:
            return None
        owner.settimeout(_PATIENCE_S)
        try:
            descriptor = wire.receive(owner, self._size)
        except (OSError, ValueError):  # it loads, hangs, or is none of ours: again, later
            descriptor = None
        if descriptor is None:
            owner.close()
            return None
        os.close(descriptor)  # of what we have already
        return owner

    def _answer(self) -> None:
        assert self._listener is not None
        try:
            asker, _address = self._listener.accept()
        except OSError as error:  # no descriptor is left, say: whoever asks waits
            log.warning("nobody can be handed weights at present: %s", error)
            self._closing.wait(_PATIENCE_S)
            return
        asker.settimeout(_PATIENCE_S)
        try:
            if not wire.is_ours(asker):
                raise PermissionError("another user's process asks for weights")
            wire.send(asker, self._piece.descriptor, self._size)
        except OSError as error:
            log.warning("weights could not be handed to another worker: %s", error)
            asker.close()
            return
        self._askers.add(asker)
        self._selector.register(asker, selectors.EVENT_READ)

    def _hear(self, peer: socket.socket) -> None:
        """Nobody says anything: what comes is an end."""
        try:
            if peer.recv(64):
                return
        except OSError:
            pass
        self._selector.unregister(peer)
        self._askers.discard(peer)
        peer.close()
        if peer is self._owner:
            self._owner = None
