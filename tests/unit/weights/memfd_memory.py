"""Anonymous host memory, shared by descriptor: a `SharedMemory` that needs no GPU; and a process that uses it."""

from __future__ import annotations

import mmap
import os
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from omniflow_workers.weights.sharing.home import SharedHome
from omniflow_workers.weights.sharing.memory import Exported
from omniflow_workers.weights.store import WeightsStore


class MemfdMemory:
    """`filled`, `opened`: how many pieces this process made, and how many it took from others."""

    def __init__(self, *, outlives_owner: bool = True) -> None:
        self.outlives_owner = outlives_owner
        self.filled = 0
        self.opened = 0
        self._descriptors: dict[int, int] = {}

    def fill(self, source: torch.Tensor) -> torch.Tensor:
        self.filled += 1
        descriptor = os.memfd_create("weights")
        os.ftruncate(descriptor, source.nbytes)
        piece = _view(mmap.mmap(descriptor, source.nbytes), source.nbytes)
        piece.copy_(source)
        self._descriptors[piece.data_ptr()] = descriptor
        return piece

    def export(self, piece: torch.Tensor) -> Exported:
        return Exported({"kind": "memfd"}, [self._descriptors[piece.data_ptr()]])

    def open(self, exported: Exported, size: int) -> torch.Tensor:
        self.opened += 1
        (descriptor,) = exported.descriptors
        return _view(mmap.mmap(descriptor, size, prot=mmap.PROT_READ), size)


def _view(whole: mmap.mmap, size: int) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(whole, dtype=torch.uint8, count=size)


class SlowMemory(MemfdMemory):
    """Says when it begins to fill, and goes on when told to."""

    def __init__(self, channel: Connection) -> None:
        super().__init__()
        self._channel = channel

    def fill(self, source: torch.Tensor) -> torch.Tensor:
        self._channel.send("filling")
        self._channel.recv()
        return super().fill(source)


def hold(channel: Connection, device: str, fingerprint: str, path: Path, slow: bool) -> None:
    """A process: holds the weights until told to end."""
    memory = SlowMemory(channel) if slow else MemfdMemory()
    with WeightsStore(SharedHome(memory, device)).hold(fingerprint, path) as held:
        channel.send(f"{'filled' if memory.filled else 'opened'} {float(held.tensors['w'].sum())}")
        channel.recv()
