"""Memory of a device that processes can share by a descriptor: what `SharedHome` asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Piece(Protocol):
    """Some memory of the device, in this process. It lives until the last process has let go of it.

    `data`: shape (bytes,), uint8.
    """

    @property
    def data(self) -> torch.Tensor: ...
    @property
    def descriptor(self) -> int:
        """What another process opens it by; the piece's own."""

    def close(self) -> None:
        """This process needs it no more; what tensors over it still need stays with them."""


class SharedMemory(Protocol):
    """One device's memory."""

    def fill(self, source: torch.Tensor) -> Piece:
        """A new piece with the content of `source`, which lies in main memory; complete when this returns."""

    def open(self, descriptor: int, size: int) -> Piece:
        """A piece of `size` bytes of another process. The descriptor is the piece's from now on, also if this fails."""
