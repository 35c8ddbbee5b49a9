"""Shared memory as tensors: on the host or on a CUDA device, made here or passed on by another process, never copied.

The memory, its passing and its page generations are `omniflow_core`'s (`HostArena`, `ArenaChannel`, `BlobArena`); this
package puts tensors over it, the same way on every device. Importing it does not import torch.
"""

from omniflow_workers.arenas.base import Arena, DeviceUnavailableError
from omniflow_workers.arenas.cpu import CpuArena
from omniflow_workers.arenas.cuda import CudaArena
from omniflow_workers.arenas.devices import create_arena, open_arena
from omniflow_workers.arenas.views import array_over, pool_tensor, tensor_over

__all__ = [
    "Arena",
    "CpuArena",
    "CudaArena",
    "DeviceUnavailableError",
    "array_over",
    "create_arena",
    "open_arena",
    "pool_tensor",
    "tensor_over",
]
