"""CUDA memory that processes share, for weights. No GPU has run this yet (see `arenas.cuda_memory`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omniflow.errors import InvalidArgument
from omniflow_workers.arenas import DeviceUnavailableError
from omniflow_workers.arenas.devices import host_name_of
from omniflow_workers.weights.sharing.memory import Piece

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class CudaPiece:
    """A `Piece`. Its memory goes with the last tensor over it."""

    data: torch.Tensor
    descriptor: int

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class CudaWeightsMemory:
    """The memory of the device that this process calls `number`."""

    number: int

    @property
    def name(self) -> str:
        """Equal in all processes of the host for one GPU, whatever CUDA_VISIBLE_DEVICES calls it there.

        Raises `InvalidArgument` when there is no such device.
        """
        try:
            return host_name_of(f"cuda:{self.number}")
        except DeviceUnavailableError as error:
            raise InvalidArgument(
                str(error), field="device", cure="correct `device` in the cluster file, or see to the driver"
            ) from error

    def fill(self, source: torch.Tensor) -> Piece:
        import torch

        from omniflow_workers.arenas.cuda_memory import CudaMemory

        memory = CudaMemory.create(self.number, source.nbytes)
        data = torch.as_tensor(memory, device=f"cuda:{self.number}")
        data.copy_(source)
        torch.cuda.synchronize(self.number)
        return CudaPiece(data, os.dup(memory.descriptor()))

    def open(self, descriptor: int, size: int) -> Piece:
        import torch

        from omniflow_workers.arenas.cuda_memory import CudaMemory

        try:
            memory = CudaMemory.open(self.number, descriptor, size)
            return CudaPiece(torch.as_tensor(memory, device=f"cuda:{self.number}"), descriptor)
        except BaseException:
            os.close(descriptor)
            raise
