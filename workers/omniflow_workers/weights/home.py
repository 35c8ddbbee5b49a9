"""Where the bytes of a weights file live on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from omniflow_workers.weights.mapped import MappedFile


class Placed(Protocol):
    """A file's bytes on a device. `data`: shape (bytes,), uint8; nobody writes to it."""

    @property
    def data(self) -> torch.Tensor: ...
    def close(self) -> None:
        """This process needs them no more. Tensors that are still in use keep what they need."""


class Home(Protocol):
    """Brings files to a device."""

    def place(self, fingerprint: str, file: MappedFile) -> Placed:
        """`fingerprint` names what is in `file`. Called once for each fingerprint that is held."""


@dataclass(frozen=True, slots=True)
class PlacedHere:
    """Bytes that go with the tensors over them, and with nothing else."""

    data: torch.Tensor

    def close(self) -> None:
        """Nothing to do."""


class HostHome:
    """Main memory: the mapped file itself, which all processes of the host that map it share."""

    def place(self, fingerprint: str, file: MappedFile) -> Placed:
        return PlacedHere(file.data)


@dataclass(frozen=True, slots=True)
class OwnHome:
    """A device that has no way to share memory between processes: one copy for each process."""

    device: str

    def place(self, fingerprint: str, file: MappedFile) -> Placed:
        return PlacedHere(file.data.to(self.device))


def home_of(device: str) -> Home:
    """The home on `device`, as torch names devices."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return HostHome()
    if kind == "cuda":
        from omniflow_workers.weights.sharing.cuda import CudaWeightsMemory
        from omniflow_workers.weights.sharing.home import SharedHome

        memory = CudaWeightsMemory(int(device.partition(":")[2] or 0))
        return SharedHome(memory, memory.name)
    return OwnHome(device)
