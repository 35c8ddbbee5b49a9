"""The cached form of weights: one safetensors file in which linear weights of the same input are joined.

Weights that multiply the same input lie one after the other in one tensor, so that one product serves them all. The
model's own tensors, under their own names and in their own shape, are views of what is stored: nothing is copied,
whoever uses which form. Rows are outputs, as in the model, so that a range of outputs is contiguous: a product of a few
rows is fastest in panels of them (see `engines.torch.product`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow_workers.stop_at import stop_at
from omniflow_workers.weights.header import lay_out, render
from omniflow_workers.weights.mapped import map_file, torch_dtypes
from omniflow_workers.weights.room import reserve

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

JOINS = (("qkv_proj", ("q_proj", "k_proj", "v_proj")), ("gate_up_proj", ("gate_proj", "up_proj")))
JOINED = ".joined"
"""Ends the name of such a tensor in the file."""
_LAYOUT = "joined"
_LINEAR = re.compile(r"(.*)\.(\w+_proj)\.weight$")


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored tensor, shape (out, in), and the model's weights it consists of with their numbers of output rows."""

    name: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """Mapped weights. `stored`: tensors as they lie in the file; `named`: the model's own, views of them."""

    stored: Mapping[str, torch.Tensor]
    named: Mapping[str, torch.Tensor]


def plan(shapes: Mapping[str, Sequence[int]]) -> list[Stored]:
    """Which linear weights of a model to store joined, and with which."""
    planned: list[Stored] = []
    taken: set[str] = set()
    for name, shape in shapes.items():
        match = _LINEAR.match(name)
        if match is None or name in taken or len(shape) != 2:
            continue
        parent, kind = match.groups()
        joined, kinds = next((join for join in JOINS if kind in join[1]), (kind, (kind,)))
        parts = tuple(f"{parent}.{each}.weight" for each in kinds)
        if any(part not in shapes or shapes[part][1] != shape[1] for part in parts):
            joined, parts = kind, (name,)
        taken.update(parts)
        planned.append(Stored(f"{parent}.{joined}.weight", tuple((part, shapes[part][0]) for part in parts)))
    return planned


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes the model's tensors in the cached form, one after the other. The caller makes it atomic.

    Raises `NoRoomForWeights` before anything is written when the disk has no room for all of it.
    """
    names = {dtype: name for name, dtype in torch_dtypes().items()}
    parts = _stored_parts(tensors)
    described = [
        (name, names[pieces[0].dtype], (sum(len(piece) for piece in pieces), *pieces[0].shape[1:]))
        if name.endswith(JOINED)
        else (name, names[pieces[0].dtype], tuple(pieces[0].shape))
        for name, pieces in parts.items()
    ]
    places = lay_out(described)
    head = render(places, {"format": "pt", _LAYOUT: _layout_of(tensors)})
    with path.open("wb") as file:
        reserve(file, path, len(head) + (places[-1].end if places else 0))
        file.write(head)
        for index, pieces in enumerate(parts.values()):
            for piece in pieces:
                file.write(_bytes_of(piece.to(pieces[0].dtype)).data)
            if index == len(parts) // 2:
                file.flush()
                stop_at("weights-half-written")


def _stored_parts(tensors: Mapping[str, torch.Tensor]) -> dict[str, list[torch.Tensor]]:
    """What is stored under which name. The largest elements come first, so that each can be read where it lies."""
    planned = _planned(tensors)
    linear = {part for stored in planned for part, _ in stored.parts}
    out = {name: [tensor] for name, tensor in tensors.items() if name not in linear}
    for stored in planned:
        out[stored.name + JOINED] = [tensors[part] for part, _ in stored.parts]
    return dict(sorted(out.items(), key=lambda item: -item[1][0].itemsize))


def _planned(tensors: Mapping[str, torch.Tensor]) -> list[Stored]:
    return plan({name: tuple(tensor.shape) for name, tensor in tensors.items()})


def _layout_of(tensors: Mapping[str, torch.Tensor]) -> str:
    return json.dumps([[stored.name, stored.parts] for stored in _planned(tensors)])


def _bytes_of(tensor: torch.Tensor) -> NDArray[np.uint8]:
    import torch

    found: NDArray[np.uint8] = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return found


def named(stored: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> Weights:
    """The model's own tensors over what a file that `write` wrote holds: views, on whichever device that is."""
    found = {name: tensor for name, tensor in stored.items() if not name.endswith(JOINED)}
    for name, parts in json.loads(metadata.get(_LAYOUT, "[]")):
        start = 0
        for part, rows in parts:
            found[part] = stored[name + JOINED].narrow(0, start, rows)
            start += rows
    return Weights(stored, found)


def read(path: Path) -> Weights:
    """Maps a file that `write` wrote (see `mapped.map_file`)."""
    mapped = map_file(path)
    return named(mapped.tensors(), mapped.header.metadata)
