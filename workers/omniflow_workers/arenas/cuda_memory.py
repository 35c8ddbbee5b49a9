"""Memory of a CUDA device behind a descriptor, by the driver's virtual memory management.

No GPU has run this yet: it follows the driver's documentation and the signatures of `cuda.bindings`, and what can be
tested without a GPU is.

Why not torch's own sharing (`UntypedStorage._share_cuda_`): it counts references in a file under /dev/shm, which a
process that is killed leaves behind, and its memory is the owner's, gone when that dies. Memory made by `cuMemCreate`
is passed on as a descriptor, like the host's: over the same channel, and it lives until the last process has let go
of it.
"""

from __future__ import annotations

import importlib
import os
import weakref
from typing import Any, Final

from omniflow_core import OutOfMemory
from omniflow_workers.arenas.base import DeviceUnavailableError

_PACKAGE: Final = "cuda.bindings.driver"


class CudaMemory:
    """Some memory of one device, mapped in this process until it is collected. torch takes it as it is, by
    `__cuda_array_interface__`: a tensor over it keeps it."""

    def __init__(self, device: int, handle: object, nbytes: int) -> None:
        """Maps `handle`, an allocation of at least `nbytes` bytes, and owns it from now on, also if this fails."""
        driver = _driver()
        self.device: Final = device
        self.nbytes: Final = nbytes
        size = _rounded(driver, device, nbytes)
        undo: list[tuple[str, tuple[object, ...]]] = [("cuMemRelease", (handle,))]
        try:
            address = _call(driver, "cuMemAddressReserve", size, 0, 0, 0)
            undo.append(("cuMemAddressFree", (address, size)))
            _call(driver, "cuMemMap", address, size, 0, handle, 0)
            undo.append(("cuMemUnmap", (address, size)))
            _call(driver, "cuMemSetAccess", address, size, [_access(driver, device)], 1)
        except BaseException:
            _undo(driver, undo)
            raise
        self.address: Final = int(address)
        self._handle: Final = handle
        self._exported: int | None = None
        # When the interpreter ends, the driver is gone, and has given all of it back.
        weakref.finalize(self, _release, device, undo).atexit = False

    @classmethod
    def create(cls, device: int, nbytes: int) -> CudaMemory:
        """New memory; what lies there is left from before. Raises `OutOfMemory`, `DeviceUnavailableError`."""
        driver = _driver()
        _start(device)
        size = _rounded(driver, device, nbytes)
        return cls(device, _call(driver, "cuMemCreate", size, _properties(driver, device), 0), nbytes)

    @classmethod
    def open(cls, device: int, descriptor: int, nbytes: int) -> CudaMemory:
        """What another process exported; the descriptor stays the caller's. Memory that is smaller than `nbytes`
        cannot be mapped as so much: `DeviceUnavailableError`."""
        driver = _driver()
        _start(device)
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return cls(device, _call(driver, "cuMemImportFromShareableHandle", descriptor, kind), nbytes)

    def descriptor(self) -> int:
        """What to pass on; this object's, until it is collected. The memory lives while anyone has such a
        descriptor."""
        if self._exported is None:
            driver = _driver()
            kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
            exported = int(_call(driver, "cuMemExportToShareableHandle", self._handle, kind, 0))
            os.set_inheritable(exported, False)
            weakref.finalize(self, os.close, exported)
            self._exported = exported
        return self._exported

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Its bytes, as an array of one dimension."""
        return {
            "shape": (self.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
        }


def _driver() -> Any:
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise DeviceUnavailableError(
            f"CUDA memory is shared by way of the package cuda-bindings, which is not here ({error}): "
            "install the CUDA build of torch, which brings it"
        ) from error


def _start(device: int) -> None:
    """Has torch set up the device: what is mapped here belongs to the same context as its tensors."""
    import torch

    if not torch.cuda.is_available() or device >= torch.cuda.device_count():
        raise DeviceUnavailableError(
            f"there is no cuda:{device} here: torch finds {torch.cuda.device_count()} CUDA devices; "
            "check the driver (nvidia-smi) and CUDA_VISIBLE_DEVICES"
        )
    torch.zeros((), device=f"cuda:{device}")


def _call(driver: Any, name: str, *arguments: object) -> Any:
    """The result of a call of the driver. Raises `OutOfMemory`, and `DeviceUnavailableError` with the driver's own
    words."""
    try:
        status, *results = getattr(driver, name)(*arguments)
    except RuntimeError as error:  # The driver's library is not there.
        raise DeviceUnavailableError(f"there is no CUDA driver here ({error})") from error
    if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise OutOfMemory(
            f"the CUDA device has no memory left ({name}): make the arena smaller, or free some of the device"
        )
    if int(status) != 0:
        _, words = driver.cuGetErrorString(status)
        said = words.decode() if isinstance(words, bytes) else status
        raise DeviceUnavailableError(f"the CUDA driver refused {name}: {said}")
    return results[0] if results else None


def _properties(driver: Any, device: int) -> Any:
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device
    properties.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    return properties


def _access(driver: Any, device: int) -> Any:
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = device
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return access


def _rounded(driver: Any, device: int, nbytes: int) -> int:
    """So many bytes in whole pieces of the device's memory (2 MiB on those that are sold)."""
    least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    piece = int(_call(driver, "cuMemGetAllocationGranularity", _properties(driver, device), least))
    return -(-nbytes // piece) * piece


def _release(device: int, undo: list[tuple[str, tuple[object, ...]]]) -> None:
    """Gives memory back once the device has done with it."""
    import torch

    torch.cuda.synchronize(device)
    _undo(_driver(), undo)


def _undo(driver: Any, undo: list[tuple[str, tuple[object, ...]]]) -> None:
    for name, arguments in reversed(undo):
        # Nothing can be done about what the driver refuses to take back; the other steps still follow.
        getattr(driver, name)(*arguments)
