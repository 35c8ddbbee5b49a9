"""Arenas in the memory of a CUDA device. No GPU has run this yet (see `cuda_memory`).

Processes that share a device call it by the same number: give them the same CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from omniflow_core import ArenaLayout, HostArena, InvalidArgument, OfferedArena, OutOfBounds
from omniflow_workers.arenas.base import DeviceUnavailableError
from omniflow_workers.arenas.cuda_memory import CudaMemory

if TYPE_CHECKING:
    import torch


class CudaArena:
    """An arena whose pages lie on a CUDA device, and whose generations lie in the host's memory. Both travel
    together."""

    def __init__(self, book: HostArena, memory: CudaMemory) -> None:
        import torch

        self.book: Final = book
        self._memory: Final = memory
        self._bytes: Final = torch.as_tensor(memory, device=f"cuda:{memory.device}")

    @classmethod
    def create(cls, layout: ArenaLayout) -> CudaArena:
        """New memory; what lies there is left from before. Raises `OutOfMemory`, `DeviceUnavailableError`."""
        memory = CudaMemory.create(device_number(layout.device), layout.data_bytes)
        return cls(HostArena.create(layout, name=f"omniflow-{layout.content}-book"), memory)

    @classmethod
    def open(cls, offered: OfferedArena, wanted: ArenaLayout | None = None, *, writable: bool = True) -> CudaArena:
        """What another process has passed on. The device's memory is always writable; `writable` is that of the
        generations. Raises `ArenaMismatch`, `ArenaDamaged`, `DeviceUnavailableError`."""
        book, descriptor = offered.open(wanted, writable=writable)
        if descriptor is None:
            raise InvalidArgument(f"the arena '{offered.name}' came without its memory on {book.layout.device}")
        try:
            memory = CudaMemory.open(device_number(book.layout.device), descriptor, book.layout.data_bytes)
        finally:
            os.close(descriptor)
        return cls(book, memory)

    @property
    def layout(self) -> ArenaLayout:
        return self.book.layout

    def tensor(self, dtype: torch.dtype, shape: Sequence[int], offset: int = 0) -> torch.Tensor:
        end = offset + math.prod(shape) * dtype.itemsize
        if offset < 0 or end > self._memory.nbytes:
            raise OutOfBounds(f"bytes {offset}..{end} are not inside the {self._memory.nbytes} bytes of the arena")
        return self._bytes[offset:end].view(dtype).view(tuple(shape))

    def settle(self) -> None:
        import torch

        torch.cuda.current_stream(self._memory.device).synchronize()

    def offered(self, name: str) -> tuple[str, HostArena, int | None]:
        return name, self.book, self._memory.descriptor()


def device_number(device: str) -> int:
    """3 for `cuda:3`. Raises `DeviceUnavailableError` for another device."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or not number.isdecimal():
        raise DeviceUnavailableError(f"'{device}' is no CUDA device: those are called cuda:0, cuda:1 and so on")
    return int(number)
