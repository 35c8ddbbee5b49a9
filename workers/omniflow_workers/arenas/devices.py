"""The arena of a device, by its name."""

from __future__ import annotations

from omniflow_core import ArenaLayout, OfferedArena
from omniflow_workers.arenas.base import Arena, DeviceUnavailableError
from omniflow_workers.arenas.cpu import CpuArena
from omniflow_workers.arenas.cuda import CudaArena, device_number


def create_arena(layout: ArenaLayout, *, prefault: bool = False, huge_pages: bool = True) -> Arena:
    """New memory on `layout.device`. `prefault` and `huge_pages` are the host's. Raises `OutOfMemory`,
    and `DeviceUnavailableError` for a device that is not there, or that nobody knows how to share."""
    match _kind(layout.device):
        case "cpu":
            return CpuArena.create(layout, prefault=prefault, huge_pages=huge_pages)
        case _:
            return CudaArena.create(layout)


def open_arena(offered: OfferedArena, wanted: ArenaLayout | None = None, *, writable: bool = True) -> Arena:
    """What another process has passed on, if it is as `wanted`. Raises `ArenaMismatch`, `ArenaDamaged`,
    `DeviceUnavailableError`; no descriptor is kept then."""
    try:
        kind = _kind(offered.layout.device)
    except DeviceUnavailableError:
        offered.close()
        raise
    match kind:
        case "cpu":
            return CpuArena.open(offered, wanted, writable=writable)
        case _:
            return CudaArena.open(offered, wanted, writable=writable)


def host_name_of(device: str) -> str:
    """Equal in all processes of the host for one device, whatever CUDA_VISIBLE_DEVICES calls it there.

    Raises `DeviceUnavailableError` when there is no such device.
    """
    if _kind(device) == "cpu":
        return "cpu"
    import torch

    number, count = device_number(device), torch.cuda.device_count()
    if number >= count:
        raise DeviceUnavailableError(
            f"there is no {device} here: torch finds {count} CUDA devices; "
            "check the driver (nvidia-smi) and CUDA_VISIBLE_DEVICES"
        )
    return f"cuda-{torch.cuda.get_device_properties(number).uuid}"


def _kind(device: str) -> str:
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise DeviceUnavailableError(f"memory of '{device}' cannot be shared: there are cpu and cuda:N")
    return kind
