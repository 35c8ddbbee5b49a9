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

if TYPE_CHECKING:
    import torch

JOINS = (("qkv_proj", ("q_proj", "k_proj", "v_proj")), ("gate_up_proj", ("gate_proj", "up_proj")))
JOINED = ".joined"
"""Ends the name of such a tensor in the file."""
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
    """Writes the model's tensors in the cached form. The caller makes it atomic."""
    import torch
    from safetensors.torch import save_file

    planned = plan({name: tuple(tensor.shape) for name, tensor in tensors.items()})
    linear = {part for stored in planned for part, _ in stored.parts}
    out = {name: tensor.contiguous() for name, tensor in tensors.items() if name not in linear}
    for stored in planned:
        out[stored.name + JOINED] = torch.cat([tensors[part] for part, _ in stored.parts])
    layout = json.dumps([[stored.name, stored.parts] for stored in planned])
    save_file(out, path, metadata={"format": "pt", "joined": layout})


def read(path: Path) -> Weights:
    """Maps a file that `write` wrote. Pages come from the file when touched, and are shared by all who map it."""
    from safetensors import safe_open

    stored: dict[str, torch.Tensor] = {}
    with safe_open(path, framework="pt") as file:
        layout = json.loads((file.metadata() or {}).get("joined", "[]"))
        for name in file.keys():  # noqa: SIM118  not a mapping: it has no iterator of its own
            stored[name] = file.get_tensor(name)
    named = {name: tensor for name, tensor in stored.items() if not name.endswith(JOINED)}
    for name, parts in layout:
        start = 0
        for part, rows in parts:
            named[part] = stored[name + JOINED].narrow(0, start, rows)
            start += rows
    return Weights(stored, named)
