"""Arenas in the host's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omniflow_core import ArenaLayout, HostArena, OfferedArena
from omniflow_workers.arenas.views import tensor_over

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class CpuArena:
    """An arena whose pages lie beside their generations."""

    book: HostArena

    @classmethod
    def create(cls, layout: ArenaLayout, *, prefault: bool = False, huge_pages: bool = True) -> CpuArena:
        """New memory, all zeros. Raises `OutOfMemory`."""
        name = f"omniflow-{layout.content}"
        return cls(HostArena.create(layout, name=name, prefault=prefault, huge_pages=huge_pages))

    @classmethod
    def open(cls, offered: OfferedArena, wanted: ArenaLayout | None = None, *, writable: bool = True) -> CpuArena:
        """What another process has passed on. Raises `ArenaMismatch`, `ArenaDamaged`."""
        book, _ = offered.open(wanted, writable=writable)
        return cls(book)

    @property
    def layout(self) -> ArenaLayout:
        return self.book.layout

    def tensor(self, dtype: torch.dtype, shape: Sequence[int], offset: int = 0) -> torch.Tensor:
        view = self.book.view(offset, math.prod(shape) * dtype.itemsize)
        return tensor_over(view, dtype, shape)

    def settle(self) -> None:
        """What a thread has written is in memory: nothing to wait for."""

    def offered(self, name: str) -> tuple[str, HostArena, int | None]:
        return name, self.book, None
