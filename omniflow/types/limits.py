"""What a value may measure before it is refused, and the refusals that several types share."""

from __future__ import annotations

from omniflow.errors import InvalidArgument
from omniflow.types.buffers import Data, as_data

MAX_PIXELS = 64_000_000
"""Pixels of one image unless the caller says otherwise: 8,000 x 8,000."""

MAX_SAMPLE_RATE = 768_000
"""Hz."""

MAX_CHANNELS = 64

MAX_FRAME_BYTES = 128 << 20
"""One frame on an edge, serialized: what a worker's `node` takes."""

MAX_INPUT_BYTES = 250 << 20
"""The inputs of one job at most, whatever the cluster's `max_input_bytes`: they travel in messages of 256 MiB."""


def require_bytes(data: object, what: str, field: str = "") -> Data:
    """`data` as bytes, copied only when it may change. Raises `InvalidArgument` when empty or of another type."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgument(
            f"{what} wants bytes, got {type(data).__name__}", field=field, cure=f"pass the {what.lower()}'s bytes"
        )
    if len(data) == 0:
        raise InvalidArgument(f"{what} is empty: 0 bytes", field=field, cure="check that the file was written")
    return as_data(data)
