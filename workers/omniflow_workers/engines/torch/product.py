"""Products with a weight, in the way that is fastest for the number of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

FEWEST, MOST = 3, 16
"""Numbers of rows for which panels pay.

Measured for the 135 M parameters of SmolLM2 in fp32, CPU time of one Xeon core with AVX-512. 8 rows: 115 ms as plain
products, 70 ms in panels (oneDNN, with weights packed a second time: 66 to 76 ms). 1 row: 46 ms either way, which is
what memory gives. From 24 rows on the plain product is as fast.
"""
_WIDEST, _STEP = 192, 16
"""Outputs of a panel at most, and what their number is a multiple of: a panel stays in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class Product:
    """Multiplies rows by `weight`, shape (outputs, inputs), contiguous.

    `panels`: the same as (panels, inputs, width), None when the outputs cannot be divided evenly.
    """

    weight: torch.Tensor
    panels: torch.Tensor | None

    @classmethod
    def of(cls, weight: torch.Tensor) -> Product:
        outputs, inputs = weight.shape
        width = next((w for w in range(_WIDEST, 0, -_STEP) if outputs % w == 0), None)
        panels = None if width is None else weight.view(-1, width, inputs).transpose(1, 2)
        return cls(weight, panels)

    @property
    def inputs(self) -> int:
        return self.weight.shape[1]

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """`rows`: (n, inputs). Returns (n, outputs), a new tensor."""
        if self.panels is None or not FEWEST <= len(rows) <= MOST:
            return functional.linear(rows, self.weight)
        return self._in_panels(rows, self.panels).transpose(0, 1).reshape(len(rows), -1)

    def add_to(self, sums: torch.Tensor, rows: torch.Tensor) -> None:
        """Adds the product of `rows`, shape (n, inputs), to `sums`, shape (n, outputs), contiguous, in place."""
        if self.panels is None or not FEWEST <= len(rows) <= MOST:
            sums.addmm_(rows, self.weight.t())
            return
        found = self._in_panels(rows, self.panels)
        sums.view(len(rows), len(found), -1).add_(found.transpose(0, 1))

    def _in_panels(self, rows: torch.Tensor, panels: torch.Tensor) -> torch.Tensor:
        """Shape (panels, n, width)."""
        return torch.bmm(rows.unsqueeze(0).expand(len(panels), -1, -1), panels)
