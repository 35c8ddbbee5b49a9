"""Dense arrays, as dtype, shape and bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omniflow.errors import InvalidArgument
from omniflow.types.buffers import Data, aligned, bytes_of

if TYPE_CHECKING:  # NumPy comes with the first tensor: processes that make none start sooner
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor as TorchTensor

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_REALS = ("float16", "float32", "float64", "complex64", "complex128")
DTYPES = frozenset(["bool", "bfloat16", *_INTEGERS, *_REALS])


@dataclass(frozen=True, slots=True)
class Tensor:
    """Row-major, little-endian.

    `dtype`: NumPy's name, or "bfloat16", which NumPy does not know; `shape`: any number of dimensions; `data`: exactly
    as many bytes as these say, else `InvalidArgument`. What a role gets lies in memory that others read too: big data
    is a view of it, which nobody may write.
    """

    dtype: str
    shape: tuple[int, ...]
    data: Data = field(repr=False)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, bytes(self.data)))

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidArgument(
                f"unknown dtype {self.dtype!r}", field="dtype", cure=f"use one of {', '.join(sorted(DTYPES))}"
            )
        if any(size < 0 for size in self.shape):
            raise InvalidArgument(f"a tensor of shape {self.shape}", field="shape", cure="dimensions are 0 or more")
        wanted = math.prod(self.shape) * _itemsize(self.dtype)
        if len(self.data) != wanted:
            raise InvalidArgument(
                f"{self.dtype} of shape {self.shape} takes {wanted} bytes, got {len(self.data)}",
                field="data",
                cure="the data is truncated, or dtype or shape are wrong",
            )

    @classmethod
    def from_array(cls, values: npt.ArrayLike, dtype: str | None = None) -> Tensor:
        """`values`, converted to `dtype` where given ("bfloat16" rounds to nearest even).

        A contiguous array of that type is not copied: do not write to it until the tensor has been sent or returned.
        """
        import numpy as np

        array = np.asarray(values)
        if dtype == "bfloat16":
            return cls("bfloat16", array.shape, bytes_of(_to_bfloat16(array)))
        if dtype is not None and dtype not in DTYPES:
            raise InvalidArgument(
                f"unknown dtype {dtype!r}", field="dtype", cure=f"use one of {', '.join(sorted(DTYPES))}"
            )
        array = np.asarray(array, dtype=dtype)
        if array.dtype.name not in DTYPES:
            raise InvalidArgument(
                f"a tensor cannot hold {array.dtype}", field="dtype", cure="convert it to numbers first"
            )
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        # `ascontiguousarray` would give an array without dimensions one.
        return cls(array.dtype.name, array.shape, bytes_of(np.asarray(little, order="C")))

    @classmethod
    def from_torch(cls, tensor: TorchTensor) -> Tensor:
        """A tensor of torch, bfloat16 as it is. Raises `InvalidArgument` for a dtype that does not travel.

        One that lies contiguous in the host's memory is not copied: do not write to it until this has been sent or
        returned.
        """
        import torch

        name = str(tensor.dtype).removeprefix("torch.")
        if name not in DTYPES:
            raise InvalidArgument(
                f"a tensor cannot hold {name}", field="dtype", cure=f"use one of {', '.join(sorted(DTYPES))}"
            )
        plain = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
        return cls(
            name, tuple(plain.shape), bytes_of(plain.view(-1).view(torch.uint8).numpy()) if plain.numel() else b""
        )

    def array(self) -> npt.NDArray[Any]:
        """A read-only view of `shape`. A bfloat16 tensor is widened into float32, exactly; `bits` has its own bits."""
        import numpy as np

        if self.dtype == "bfloat16":
            return (self.bits().astype(np.uint32) << 16).view(np.float32)
        return aligned(np.frombuffer(self.data, np.dtype(self.dtype).newbyteorder("<"))).reshape(self.shape)

    def bits(self) -> npt.NDArray[Any]:
        """The raw elements as unsigned integers of their width, without a copy; of bytes where none is that wide."""
        import numpy as np

        size = _itemsize(self.dtype)
        if size > 8:
            return np.frombuffer(self.data, np.uint8).reshape(*self.shape, size)
        return aligned(np.frombuffer(self.data, f"<u{size}")).reshape(self.shape)

    def torch(self) -> TorchTensor:
        """The same as a tensor of torch, without a copy, bfloat16 as it is.

        torch knows no read-only tensors: writing to this one, in place or as an `out=`, ends the process where it lies
        in another worker's memory, and changes what others read where it does not. `clone()` it first.
        """
        import ctypes

        import torch

        dtype = getattr(torch, self.dtype)
        if not self.data:
            return torch.empty(self.shape, dtype=dtype)
        bits = self.bits()
        # torch warns of buffers that are read-only; memory named by its address has no such mark.
        memory = (ctypes.c_uint8 * len(self.data)).from_address(bits.__array_interface__["data"][0])
        memory._owner = bits  # type: ignore[attr-defined]  # keeps what lies there for as long as torch keeps `memory`
        return torch.frombuffer(memory, dtype=dtype).reshape(self.shape)


def _itemsize(dtype: str) -> int:
    if dtype == "bfloat16":
        return 2
    import numpy as np

    return np.dtype(dtype).itemsize


def _to_bfloat16(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """The upper half of float32, rounded to nearest even; NaN stays NaN."""
    import numpy as np

    wide = np.ascontiguousarray(array, dtype="<f4")
    bits = wide.view(np.uint32).astype(np.uint64).reshape(array.shape)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(wide).reshape(array.shape), np.uint16(0x7FC0), rounded).astype("<u2")
