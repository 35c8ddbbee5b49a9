"""What one node asks for beside its method's own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """`max_attempts`: None for the method's; `deadline_share`: of the job's deadline, 0 for no limit of its own;
    `near`: symbols, or bundles of them, whose makers' workers are preferred."""

    max_attempts: int | None = None
    deadline_share: float = 0.0
    near: tuple[Any, ...] = ()
