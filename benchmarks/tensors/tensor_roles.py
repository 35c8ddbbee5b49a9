"""Roles that make, pass on and take tensors, and compute nothing."""

import time
from collections.abc import Iterator

from omniflow.roles import Role, RoleContext, current, method
from omniflow.types import Stream, Tensor, Text, record


@record
class Piece:
    """A tensor; or, behind it, when its sender had begun and finished to send it, on the machine's monotonic clock."""

    tensor: Tensor | None
    began: float
    sent: float


class Maker(Role):
    """Makes as many bytes as it is asked for."""

    def load(self, context: RoleContext) -> None:
        """torch, as the peer's stage has it."""
        import torch

        self._torch = torch

    @method
    def make(self, size: Text) -> Tensor:
        """Zeros."""
        return Tensor.from_torch(self._torch.zeros(int(size), dtype=self._torch.uint8))

    @method
    def fill(self, size: Text) -> Tensor:
        """Zeros, written where they are to be read."""
        room = current().empty((int(size),), "uint8")
        room.fill(0)
        return Tensor.from_array(room)

    @method
    def timed(self, size: Text, *, count: int = 20) -> Stream[Piece]:
        """The same ones, again and again."""
        return self._timed(self._torch.ones(int(size), dtype=self._torch.uint8), count)

    def _timed(self, array: object, count: int) -> Iterator[Piece]:
        for _ in range(count):
            began = time.monotonic()
            yield Piece(Tensor.from_torch(array), 0.0, 0.0)  # type: ignore[arg-type]
            yield Piece(None, began, time.monotonic())


class Relay(Role):
    """What comes in goes out."""

    @method
    def passed(self, tensor: Tensor) -> Tensor:
        """The same."""
        return tensor


class Taker(Role):
    """Has tensors as arrays."""

    @method
    def count(self, tensor: Tensor) -> Text:
        """Its bytes."""
        return str(tensor.array().nbytes)

    @method
    def timed(self, pieces: Stream[Piece]) -> Tensor:
        """Seconds, shape (tensors, 2): from its sender's beginning until it was sent, and then until it was here."""
        import numpy as np

        times, came = [], 0.0
        for piece in pieces:
            if piece.tensor is not None:
                piece.tensor.array()
                came = time.monotonic()
            else:
                times.append((piece.sent - piece.began, came - piece.sent))
        return Tensor.from_array(np.array(times))
