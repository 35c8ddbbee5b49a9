"""Roles that make, read and keep big tensors, in workers that give account of their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from omniflow.roles import RoleContext, current, method
from omniflow.types import Tensor, Text
from tests.cluster_fixtures.puppets import Puppet

if TYPE_CHECKING:
    from omniflow.v1.data_pb2 import MemoryAccount

MEBIBYTE = 1 << 20


def content(seed: int, mebibytes: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """What the tensor of that seed holds."""
    return np.arange(mebibytes * MEBIBYTE // 4, dtype=np.uint32) * np.uint32(2 * seed + 1)


class NoPages:
    """A source without a page: a worker with one has a data service, which answers for its memory."""

    model, layout, device = "none", "none", "cpu"
    page_tokens, page_bytes, pool, pool_owner = 16, 64, None, 0

    def acquire(self, *_: object) -> None:
        """Nothing is known."""

    def renew(self, *_: object) -> None:
        """Nothing is leased."""

    def end(self, *_: object) -> None:
        """Nothing is leased."""

    def gather(self, *_: object) -> None:
        """Nothing is read."""

    def scatter(self, *_: object) -> None:
        """Nothing is written."""


class Heavy(Puppet):
    """Tensors are asked for as "seed:MiB"."""

    def load(self, context: RoleContext) -> None:
        super().load(context)
        self.page_source = NoPages()
        self._kept: list[Any] = []

    def meet(self, peers: object) -> None:
        """It borrows no page."""

    def account(self, into: MemoryAccount) -> None:
        """It has no memory of its own."""

    @method
    def make(self, text: Text) -> Tensor:
        """Computed somewhere, and copied once."""
        return Tensor.from_array(content(*map(int, text.split(":"))))

    @method
    def fill(self, text: Text) -> Tensor:
        """Computed where it is read."""
        made = content(*map(int, text.split(":")))
        room = current().empty(made.shape, "uint32")
        room[:] = made
        return Tensor.from_array(room)

    @method
    def read(self, tensor: Tensor) -> Text:
        """Waits for the test, then looks at every number; says which tensor it is."""
        array = tensor.array()
        with self._line() as line:
            line.wait()
        return self._told(array)

    @method
    def look_at(self, tensor: Tensor) -> Text:
        """At once."""
        return self._told(tensor.array())

    @method
    def spoil(self, tensor: Tensor) -> Text:
        """Writes where it may only read."""
        tensor.array()[0] = 1
        return "it could"

    @method
    def keep(self, tensor: Tensor) -> Text:
        """For longer than its job."""
        self._kept.append(tensor.array())
        return "kept"

    @method
    def let_go(self, text: Text) -> Text:
        """Of all that was kept, which is as it was."""
        told = ", ".join(map(self._told, self._kept))
        self._kept.clear()
        return told

    def _told(self, array: Any) -> str:
        mebibytes, seed = array.nbytes // MEBIBYTE, int(array[1]) // 2
        whole = np.array_equal(array, content(seed, mebibytes))
        return f"{seed}:{mebibytes}" if whole else "something else"
