"""Bytes of media and tensors, wherever they lie: what is big is looked at in place, not copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # NumPy comes with the first array
    import numpy.typing as npt

Data: TypeAlias = bytes | memoryview
"""Bytes, or a read-only view of bytes that lie in shared memory. Both have `len`, slices, `==`, and are taken by
`bytes()`, NumPy, torch, Pillow (in an `io.BytesIO`), `hashlib`, `base64` and files."""

BIG_BYTES = 64 << 10
"""Larger payloads stay in place: they go from role to role by handle."""


def as_data(data: bytes | bytearray | memoryview) -> Data:
    """`data`, or the same read-only as plain bytes in one row; copied only when it may change or has gaps."""
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    if not (view.readonly and view.c_contiguous):
        return bytes(view)
    return view if view.ndim == 1 and view.format == "B" else view.cast("B")


def bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """What lies in a contiguous array, read-only and without a copy: it shows what is written to the array later."""
    import numpy as np

    return array.reshape(-1).view(np.uint8).data.toreadonly()


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array; a copy where its numbers do not begin at multiples of their size, which libraries stumble over."""
    if array.flags.aligned:
        return array
    copy = array.copy()
    copy.flags.writeable = False
    return copy
