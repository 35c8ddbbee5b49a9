"""Tensors and arrays over memory that lies somewhere already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer

from omniflow_core import ArenaLayout, InvalidArgument
from omniflow_workers.arenas.base import Arena

if TYPE_CHECKING:
    import torch


def tensor_over(buffer: Buffer, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """A tensor on the host over a buffer, in place: a `Blob`, an `ArenaView`, a `HostArena`. It keeps the buffer.

    The buffer has exactly the bytes of the tensor (`InvalidArgument`). torch knows no read-only tensor: to write to one
    over an arena that is mapped for reading ends the process, and over any other changes what all its readers see.
    """
    import torch

    found = memoryview(buffer).nbytes
    _require(found, math.prod(shape) * dtype.itemsize, f"{dtype} of shape {tuple(shape)}")
    if found == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype).view(tuple(shape))


def array_over(
    buffer: Buffer, dtype: DTypeLike, shape: Sequence[int], *, writable: bool = False
) -> NDArray[np.generic]:
    """An array over a buffer, in place; it keeps the buffer. Raises `InvalidArgument` when their sizes differ.

    Read-only unless asked otherwise: other readers may have the same memory.
    """
    kind = np.dtype(dtype)
    found = memoryview(buffer)
    _require(found.nbytes, math.prod(shape) * kind.itemsize, f"{kind} of shape {tuple(shape)}")
    array: NDArray[np.generic] = np.frombuffer(found, np.uint8).view(kind).reshape(tuple(shape))
    if not writable:
        array.flags.writeable = False
    return array


def pool_tensor(arena: Arena, dtype: torch.dtype, page_shape: Sequence[int]) -> torch.Tensor:
    """All pages as one tensor of shape `(pages, *page_shape)`, in place: index it by page id.

    Raises `InvalidArgument` when a page of that shape has not exactly `layout.page_bytes` bytes.
    """
    layout: ArenaLayout = arena.layout
    page_bytes = math.prod(page_shape) * dtype.itemsize
    _require(layout.page_bytes, page_bytes, f"{dtype} pages of shape {tuple(page_shape)}")
    return arena.tensor(dtype, (layout.pages, *page_shape))


def _require(found: int, needed: int, what: str) -> None:
    if found != needed:
        raise InvalidArgument(f"{what} need {needed} bytes, there are {found}: pass the shape that was written")
