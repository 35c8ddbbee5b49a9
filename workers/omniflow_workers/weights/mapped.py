"""A safetensors file as tensors: mapped read-only, so that all who map it read the same memory."""

from __future__ import annotations

import mmap
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow_workers.weights.header import ITEM_BYTES, Header, read_header

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class MappedFile:
    """`data`: the bytes after the header, shape (data_bytes,), uint8. Writing to them kills the process."""

    path: Path
    header: Header
    data: torch.Tensor

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of the file, as a view of `data`."""
        return views(self.header, self.data)


def map_file(path: Path) -> MappedFile:
    """Maps `path`. It stays mapped as long as any tensor of it lives, also when the file is removed meanwhile.

    Read-only and shared: pages belong to the file, never to a process, and nobody can turn one into a copy of his own
    by writing to it. (The safetensors library maps privately: a write there is a silent copy.) They come from the disk
    when touched. Raises `BadWeights`, and `OSError` when there is no such file.
    """
    import torch

    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = read_header(file, path, size)
        if not header.data_bytes:
            return MappedFile(path, header, torch.empty(0, dtype=torch.uint8))
        whole = mmap.mmap(file.fileno(), size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        data = torch.frombuffer(whole, dtype=torch.uint8, offset=header.data_start, count=header.data_bytes)
    return MappedFile(path, header, data)


def views(header: Header, data: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors of a file whose bytes after the header are `data`, on any device.

    Views all, but for one case: a tensor that another program wrote at an odd place, where its dtype cannot be read, is
    copied. (Files of the safetensors library and ours have none.)
    """
    dtypes = torch_dtypes()
    found = {}
    for place in header.places:
        part = data[place.start : place.end]
        if place.start % ITEM_BYTES[place.dtype]:
            part = part.clone()
        found[place.name] = part.view(dtypes[place.dtype]).view(place.shape)
    return found


def torch_dtypes() -> dict[str, torch.dtype]:
    """Torch's dtypes by the format's names."""
    import torch

    return {
        "BOOL": torch.bool,
        "U8": torch.uint8,
        "I8": torch.int8,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2,
        "I16": torch.int16,
        "U16": torch.uint16,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
        "I32": torch.int32,
        "U32": torch.uint32,
        "F32": torch.float32,
        "I64": torch.int64,
        "U64": torch.uint64,
        "F64": torch.float64,
        "C64": torch.complex64,
    }
