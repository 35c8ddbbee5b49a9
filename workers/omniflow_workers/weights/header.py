"""The header of a safetensors file: read from a file that may be anything, and written.

Format: 8 bytes of length, little-endian; so many bytes of JSON, `{name: {dtype, shape, data_offsets}}`, and
`__metadata__`; then the tensors' bytes without a gap. Source: https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from omniflow_workers.weights.errors import BadWeights

ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 8),
}
"""Bytes of an element, by the format's name of its dtype."""
_LONGEST = 100_000_000  # as the safetensors library has it
_METADATA = "__metadata__"
_PAGE = 4096
"""Our own files' data begins at a page: tensors lie on cache lines, for any dtype."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies. `start`, `end`: bytes after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a file holds. Its data are `data_bytes` bytes from `data_start` on."""

    places: tuple[Place, ...]
    metadata: Mapping[str, str]
    data_start: int
    data_bytes: int


def lay_out(tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> tuple[Place, ...]:
    """Places for tensors of (name, dtype, shape), in their order, without a gap."""
    places, end = [], 0
    for name, dtype, shape in tensors:
        start, end = end, end + math.prod(shape) * ITEM_BYTES[dtype]
        places.append(Place(name, dtype, shape, start, end))
    return tuple(places)


def render(places: Sequence[Place], metadata: Mapping[str, str]) -> bytes:
    """The bytes before the data."""
    entries: dict[str, object] = {_METADATA: dict(metadata)}
    for place in places:
        offsets = [place.start, place.end]
        entries[place.name] = {"dtype": place.dtype, "shape": list(place.shape), "data_offsets": offsets}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _PAGE)
    return struct.pack("<Q", len(text)) + text


def read_header(file: BinaryIO, path: Path, size: int) -> Header:
    """The header of `file`, `size` bytes long, at its beginning. Raises `BadWeights` for what is none, or not whole."""
    first = file.read(8)
    if len(first) < 8:
        raise BadWeights(path, f"it has {size} bytes")
    (length,) = struct.unpack("<Q", first)
    if length > min(_LONGEST, size - 8):
        raise BadWeights(path, f"a header of {length} bytes in a file of {size}")
    try:
        entries = json.loads(file.read(length))
        metadata = {str(key): str(value) for key, value in entries.pop(_METADATA, {}).items()}
        places = sorted(
            (_place(name, entry) for name, entry in entries.items()), key=lambda each: (each.start, each.end)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadWeights(path, f"its header cannot be read ({error})") from error
    header = Header(tuple(places), metadata, 8 + length, size - 8 - length)
    _check(header, path)
    return header


def _place(name: str, entry: Mapping[str, object]) -> Place:
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (isinstance(dtype, str) and isinstance(shape, list) and isinstance(offsets, list)):
        raise TypeError(f"entry of {name}")
    start, end = offsets
    if not all(isinstance(number, int) and number >= 0 for number in [start, end, *shape]):
        raise TypeError(f"numbers of {name}")
    return Place(name, dtype, tuple(shape), start, end)


def _check(header: Header, path: Path) -> None:
    end = 0
    for place in header.places:
        if place.dtype not in ITEM_BYTES:
            raise BadWeights(path, f"{place.name} has a dtype {place.dtype!r} that nobody here knows")
        if place.start != end or place.end - place.start != math.prod(place.shape) * ITEM_BYTES[place.dtype]:
            raise BadWeights(path, f"{place.name} does not lie where its shape says")
        end = place.end
    if end != header.data_bytes:
        raise BadWeights(path, f"it has {header.data_bytes} bytes of tensors, and its header speaks of {end}")
