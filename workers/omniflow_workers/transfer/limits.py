"""Bounds on what two workers ask of each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """Times are seconds. The defaults suit a cluster; tests take shorter ones."""

    answer_s: float = 5.0
    """Who takes longer over a short message hangs."""
    connect_s: float = 2.0
    group_s: float = 10.0
    """For both sides to meet in a process group."""
    stall_s: float = 10.0
    """For one chunk to come or to leave."""
    pull_s: float = 60.0
    """For a whole pull, on the owner's side: a borrower may ask for less."""
    max_lease_s: float = 60.0
    chunk_bytes: int = 8 * 1024 * 1024
    """Of one send. Two are under way at once on each side: one moves while the other is gathered or spread."""
    max_chunk_bytes: int = 64 * 1024 * 1024
    """What a borrower may ask for."""
