"""Dense arrays, as dtype, shape and bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omniflow.errors import InvalidArgument

if TYPE_CHECKING:  # NumPy comes with the first tensor: processes that make none start sooner
    import numpy as np
    import numpy.typing as npt

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_REALS = ("float16", "float32", "float64", "complex64", "complex128")
DTYPES = frozenset(["bool", "bfloat16", *_INTEGERS, *_REALS])


@dataclass(frozen=True, slots=True)
class Tensor:
    """Row-major, little-endian.

    `dtype`: NumPy's name, or "bfloat16", which NumPy does not know; `shape`: any number of dimensions; `data`: exactly
    as many bytes as these say, else `InvalidArgument`.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)

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
        """Copies `values`, converted to `dtype` where given ("bfloat16" rounds to nearest even)."""
        import numpy as np

        array = np.asarray(values)
        if dtype == "bfloat16":
            return cls("bfloat16", array.shape, _to_bfloat16(array).tobytes())
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
        return cls(array.dtype.name, array.shape, np.ascontiguousarray(little).tobytes())

    def array(self) -> npt.NDArray[Any]:
        """A read-only view of `shape`. A bfloat16 tensor is widened into float32, exactly; `bits` has its own bits."""
        import numpy as np

        if self.dtype == "bfloat16":
            return (self.bits().astype(np.uint32) << 16).view(np.float32)
        return np.frombuffer(self.data, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)

    def bits(self) -> npt.NDArray[Any]:
        """The raw elements as unsigned integers of their width, without a copy; of bytes where none is that wide."""
        import numpy as np

        size = _itemsize(self.dtype)
        if size > 8:
            return np.frombuffer(self.data, np.uint8).reshape(*self.shape, size)
        return np.frombuffer(self.data, f"<u{size}").reshape(self.shape)


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
