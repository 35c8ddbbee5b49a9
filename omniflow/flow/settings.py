"""What one node asks for beside its method's own options."""

from __future__ import annotations

from dataclasses import dataclass

from omniflow.flow.symbol import Symbol


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """`max_attempts`: None for the method's; `deadline_share`: of the job's deadline, 0 for no limit of its own;
    `near`: results whose makers' workers are preferred."""

    max_attempts: int | None = None
    deadline_share: float = 0.0
    near: tuple[Symbol, ...] = ()
