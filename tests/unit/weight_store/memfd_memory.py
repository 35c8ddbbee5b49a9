"""Anonymous host memory, shared by descriptor: a `SharedMemory` that needs no GPU; and a process that uses it."""

from __future__ import annotations

import mmap
import os
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from omniflow_workers.weights.sharing.home import SharedHome
from omniflow_workers.weights.store import WeightsStore


class MemfdPiece:
    """A `Piece`."""

    def __init__(self, descriptor: int, data: torch.Tensor) -> None:
        self.descriptor = descriptor
        self.data = data

    def close(self) -> None:
        del self.data
        os.close(self.descriptor)


class MemfdMemory:
    """`filled`, `opened`: how many pieces this process made, and how many it took from others."""

    def __init__(self) -> None:
        self.filled = 0
        self.opened = 0

    def fill(self, source: torch.Tensor) -> MemfdPiece:
        self.filled += 1
        descriptor = os.memfd_create("weights")
        os.ftruncate(descriptor, source.nbytes)
        data = _view(mmap.mmap(descriptor, source.nbytes), source.nbytes)
        data.copy_(source)
        return MemfdPiece(descriptor, data)

    def open(self, descriptor: int, size: int) -> MemfdPiece:
        self.opened += 1
        return MemfdPiece(descriptor, _view(mmap.mmap(descriptor, size, prot=mmap.PROT_READ), size))


def _view(whole: mmap.mmap, size: int) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(whole, dtype=torch.uint8, count=size)


class SlowMemory(MemfdMemory):
    """Says when it begins to fill, and goes on when told to."""

    def __init__(self, channel: Connection) -> None:
        super().__init__()
        self._channel = channel

    def fill(self, source: torch.Tensor) -> MemfdPiece:
        self._channel.send("filling")
        self._channel.recv()
        return super().fill(source)


def hold(channel: Connection, device: str, fingerprint: str, path: Path, slow: bool) -> None:
    """A process: holds the weights until told to end."""
    memory = SlowMemory(channel) if slow else MemfdMemory()
    with WeightsStore(SharedHome(memory, device)).hold(fingerprint, path) as held:
        channel.send(f"{'filled' if memory.filled else 'opened'} {float(held.tensors['w'].sum())}")
        channel.recv()
