"""Memory of a device that processes can share: what `SharedHome` asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

Handle = Mapping[str, str | int | bool]
"""What another process needs in order to open a piece of memory, as JSON can carry it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A piece of memory for one other process. `descriptors` travel beside the handle, and stay the sender's."""

    handle: Handle
    descriptors: Sequence[int] = ()


class SharedMemory(Protocol):
    """One device's memory. Pieces are tensors of shape (bytes,), uint8."""

    @property
    def outlives_owner(self) -> bool:
        """Whether an opened piece may be read when the process that allocated it is gone."""

    def fill(self, source: torch.Tensor) -> torch.Tensor:
        """A new piece with the content of `source`, a piece of main memory; complete when this returns."""

    def export(self, piece: torch.Tensor) -> Exported:
        """For one process that asks; called again for the next."""

    def open(self, exported: Exported, size: int) -> torch.Tensor:
        """A piece of `size` bytes that another process exported. Its descriptors are ours to close."""


Lost = Callable[[str], None]
"""Called with a fingerprint when its owner has gone and what was opened may not be read any more."""
