"""Weights on a device whose memory processes can share: the first worker loads them, the others open what it has."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from omniflow_workers.weights.errors import OwnerSilent
from omniflow_workers.weights.home import Placed, PlacedHere
from omniflow_workers.weights.mapped import MappedFile
from omniflow_workers.weights.sharing import wire
from omniflow_workers.weights.sharing.lost import Told, tell
from omniflow_workers.weights.sharing.memory import Lost, SharedMemory
from omniflow_workers.weights.sharing.owner import Owner

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

_LONGEST_LOAD_S = 600.0
_RETRY_S = 0.02


class SharedHome:
    """`Home` on the device that `device` names the same way in all processes of the host.

    Of several processes that ask for the same weights, one becomes their owner and loads them; the others wait and open
    its memory. When the owner dies while it loads, the next one loads; when it dies later, whoever asks then loads
    again, and those who had opened its memory are told (`lost`) unless the memory outlives it.
    """

    def __init__(self, memory: SharedMemory, device: str, lost: Lost = tell) -> None:
        self._memory = memory
        self._device = device
        self._lost = lost
        self._owners: dict[str, Owner] = {}
        self._lock = threading.Lock()

    def place(self, fingerprint: str, file: MappedFile) -> Placed:
        address = wire.address_of(self._device, fingerprint)
        until = time.monotonic() + _LONGEST_LOAD_S
        while True:
            owned = self._owned(fingerprint)
            if owned is not None:
                return owned
            listener = wire.bind(address)
            if listener is not None:
                return self._own(fingerprint, file, listener)
            asker = wire.connect(address)
            if asker is not None:
                opened = self._open(fingerprint, file, asker, until)
                if opened is not None:
                    return opened
            if time.monotonic() > until:
                raise OwnerSilent(fingerprint, self._device, _LONGEST_LOAD_S)
            time.sleep(_RETRY_S)  # an owner is between two of its steps: binding and listening, or dying

    def _owned(self, fingerprint: str) -> Placed | None:
        """A piece of our own that other processes still use: no process can open its own."""
        with self._lock:
            owner = self._owners.get(fingerprint)
        return owner if owner is not None and owner.hold_again() else None

    def _own(self, fingerprint: str, file: MappedFile, listener: socket.socket) -> Placed:
        try:
            piece = self._memory.fill(file.data)
        except BaseException:
            listener.close()  # who waits at it tries in our place
            raise
        with self._lock:
            owner = Owner(self._memory, piece, listener, lambda ended: self._forget(fingerprint, ended))
            self._owners[fingerprint] = owner
        return owner

    def _forget(self, fingerprint: str, owner: Owner) -> None:
        with self._lock:
            if self._owners.get(fingerprint) is owner:
                del self._owners[fingerprint]

    def _open(self, fingerprint: str, file: MappedFile, owner: socket.socket, until: float) -> Placed | None:
        """None when the owner went before it answered."""
        owner.settimeout(max(0.1, until - time.monotonic()))
        size = file.header.data_bytes
        try:
            if not wire.is_ours(owner):
                raise ValueError("it is another user's")
            received = wire.receive(owner)
            if received is None:
                owner.close()
                return None
            exported, theirs = received
            try:
                if theirs != size:
                    raise ValueError(f"it has {theirs} bytes, the file {size}")
                data = self._memory.open(exported, size)
            finally:
                wire.close_all(exported.descriptors)
        except TimeoutError as error:
            owner.close()
            raise OwnerSilent(fingerprint, self._device, _LONGEST_LOAD_S) from error
        except (ValueError, RuntimeError) as error:  # RuntimeError: torch's, when the device cannot open it
            owner.close()
            log.warning("what holds the weights %s on %s is not used: %s", fingerprint[:12], self._device, error)
            return PlacedHere(self._memory.fill(file.data))
        owner.settimeout(None)
        return _Opened(data, owner, None if self._memory.outlives_owner else lambda: self._lost(fingerprint))


class _Opened:
    """A piece that another process owns. The connection says to it that we need it, and to us that it lives."""

    def __init__(self, data: torch.Tensor, owner: socket.socket, lost: Told | None) -> None:
        self.data = data
        self._owner = owner
        self._lost = lost
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="weights-opened", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        del self.data
        with suppress(OSError):  # the owner went before
            self._owner.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it

    def _watch(self) -> None:
        try:
            while self._owner.recv(64):
                pass
        except OSError:
            pass
        if not self._closed.is_set() and self._lost is not None:
            self._lost()
        self._closed.wait()
        self._owner.close()
