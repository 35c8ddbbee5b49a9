"""CUDA memory shared between processes by CUDA IPC, as `torch.multiprocessing` does, without its pickles.

No GPU has run this yet: it is held to torch's source (`torch/multiprocessing/reductions.py`) only. What is around it,
the owner and who asks him, runs in the tests on another memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omniflow_workers.weights.sharing.memory import Exported

if TYPE_CHECKING:
    import torch

_FIELDS = (
    "handle",
    "storage_size",
    "storage_offset",
    "counter_handle",
    "counter_offset",
    "event_handle",
    "event_sync_required",
)
"""What `_share_cuda_` returns after the device's number, which is the owner's and means nothing elsewhere."""


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """The memory of `device` ("cuda:0")."""

    device: str

    @property
    def name(self) -> str:
        """Equal in all processes of the host for one GPU, whatever CUDA_VISIBLE_DEVICES calls it."""
        import torch

        return f"cuda-{torch.cuda.get_device_properties(self.device).uuid}"

    @property
    def outlives_owner(self) -> bool:
        """CUDA does not promise it."""
        return False

    def fill(self, source: torch.Tensor) -> torch.Tensor:
        import torch

        piece = torch.empty(source.shape, dtype=torch.uint8, device=self.device)
        piece.copy_(source)
        torch.cuda.synchronize(self.device)
        return piece

    def export(self, piece: torch.Tensor) -> Exported:
        storage: Any = piece.untyped_storage()
        _device, *values = storage._share_cuda_()
        return Exported({name: _to_json(value) for name, value in zip(_FIELDS, values, strict=True)})

    def open(self, exported: Exported, size: int) -> torch.Tensor:
        import torch

        values = [_from_json(exported.handle[name]) for name in _FIELDS]
        index = torch.device(self.device).index or 0
        torch.empty(0, device=self.device)  # CUDA starts with the first use of it
        storage: Any = torch.UntypedStorage
        opened = storage._new_shared_cuda(index, *values)
        piece = torch.empty(0, dtype=torch.uint8, device=self.device)
        return piece.set_(opened, 0, (size,), (1,))


def _to_json(value: bytes | int | bool) -> str | int | bool:
    return value.hex() if isinstance(value, bytes) else value


def _from_json(value: str | int | bool) -> bytes | int | bool:
    return bytes.fromhex(value) if isinstance(value, str) else value
