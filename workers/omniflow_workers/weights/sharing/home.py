"""Weights on a device whose memory processes can share: the first worker loads them, the others open what it has."""

from __future__ import annotations

import logging
import socket
import time

from omniflow_workers.weights.errors import OwnerSilent
from omniflow_workers.weights.home import Placed
from omniflow_workers.weights.mapped import MappedFile
from omniflow_workers.weights.sharing import wire
from omniflow_workers.weights.sharing.memory import Piece, SharedMemory
from omniflow_workers.weights.sharing.shared import SharedPiece

log = logging.getLogger(__name__)

_LONGEST_LOAD_S = 600.0
_RETRY_S = 0.02


class SharedHome:
    """`Home` on the device that `device` names the same way in all processes of the host.

    Of several processes that ask for the same weights, one loads them; the others wait and open its memory. When it
    dies while it loads, the next one loads. When it dies later, one of those that have its memory hands it out; when
    there are none, it is gone, and whoever asks loads again.
    """

    def __init__(self, memory: SharedMemory, device: str) -> None:
        self._memory = memory
        self._device = device

    def place(self, fingerprint: str, file: MappedFile) -> Placed:
        address = wire.address_of(self._device, fingerprint)
        until = time.monotonic() + _LONGEST_LOAD_S
        while True:
            listener = wire.bind(address)
            if listener is not None:
                return self._load(address, file, listener)
            owner = wire.connect(address)
            placed = None if owner is None else self._open(fingerprint, address, file, owner, until)
            if placed is not None:
                return placed
            if time.monotonic() > until:
                raise OwnerSilent(fingerprint, self._device, _LONGEST_LOAD_S)
            time.sleep(_RETRY_S)  # the other one is between two of its steps: binding and listening, or dying

    def _load(self, address: str, file: MappedFile, listener: socket.socket) -> Placed:
        try:
            piece = self._memory.fill(file.data)
        except BaseException:
            listener.close()  # who waits at it tries in our place
            raise
        return SharedPiece(piece, address, listener=listener)

    def _open(
        self, fingerprint: str, address: str, file: MappedFile, owner: socket.socket, until: float
    ) -> Placed | None:
        """None when the owner went before it answered."""
        owner.settimeout(max(0.1, until - time.monotonic()))
        try:
            descriptor = wire.receive(owner, file.header.data_bytes)
            if descriptor is None:
                owner.close()
                return None
            piece = self._memory.open(descriptor, file.header.data_bytes)
        except TimeoutError as error:
            owner.close()
            raise OwnerSilent(fingerprint, self._device, _LONGEST_LOAD_S) from error
        except (ValueError, RuntimeError) as error:  # RuntimeError: the device's, when it cannot open it
            owner.close()
            log.warning("what holds the weights %s on %s is not used: %s", fingerprint[:12], self._device, error)
            return Alone(self._memory.fill(file.data))
        owner.settimeout(None)
        return SharedPiece(piece, address, owner=owner)


class Alone:
    """A piece that this process keeps for itself, since somebody else has its address."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self.data = piece.data

    def close(self) -> None:
        del self.data
        self._piece.close()
