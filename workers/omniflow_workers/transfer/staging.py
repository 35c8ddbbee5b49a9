"""Main memory, or a device's, in which pages lie side by side while they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omniflow_workers.transfer.counts import PullCounts

if TYPE_CHECKING:
    import torch

BUFFERS = 2


class Staging:
    """Two buffers of `rows` pages: one moves while the other is filled or emptied."""

    def __init__(self, rows: int, page_bytes: int, device: str, counts: PullCounts) -> None:
        import torch

        self.rows = rows
        self.page_bytes = page_bytes
        self.device = device
        self._counts = counts
        self._buffers = [torch.empty((rows, page_bytes), dtype=torch.uint8, device=device) for _ in range(BUFFERS)]
        counts.add(staging_bytes_now=self._bytes)

    def fits(self, rows: int, page_bytes: int, device: str) -> bool:
        """Whether it serves such a pull, too."""
        return (self.rows, self.page_bytes, self.device) == (rows, page_bytes, device)

    def rows_of(self, chunk: int, count: int) -> torch.Tensor:
        """Shape (count, page_bytes), uint8: what chunk number `chunk` lies in."""
        return self._buffers[chunk % BUFFERS][:count]

    def close(self) -> None:
        """What still moves keeps its buffer until it is done."""
        self._counts.add(staging_bytes_now=-self._bytes)
        self._buffers = []

    @property
    def _bytes(self) -> int:
        return BUFFERS * self.rows * self.page_bytes


def staging_device(backend: str, device: str) -> str:
    """Where the backend sends from."""
    return device if backend == "nccl" else "cpu"
