"""What a cluster has that does nothing: by its workers' own account, and by the kernel's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omniflow.v1.data_pb2 import MemoryAccount, PoolAccount


@dataclass(frozen=True)
class Spare:
    """What a process may have beyond its base line."""

    threads: int
    descriptors: int
    mappings: int
    resident: int


@dataclass(frozen=True)
class Footprint:
    """Of one process. `mappings`: of shared memory; `resident`: bytes of its own memory."""

    threads: int
    descriptors: int
    mappings: int
    resident: int

    @staticmethod
    def of(pid: int) -> Footprint:
        process = Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return Footprint(
            threads=int(status["Threads"]),
            descriptors=len(os.listdir(process / "fd")),
            mappings=sum("/memfd:" in line for line in (process / "maps").read_text().splitlines()),
            resident=int(status["RssAnon"].split()[0]) << 10,
        )

    def within(self, other: Footprint, spare: Spare) -> bool:
        return (
            self.threads <= other.threads + spare.threads
            and self.descriptors <= other.descriptors + spare.descriptors
            and self.mappings <= other.mappings + spare.mappings
            and self.resident <= other.resident + spare.resident
        )


def files_below(folder: Path) -> set[str]:
    """Of every kind, sockets too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def still_held(accounts: Mapping[str, MemoryAccount]) -> dict[str, dict[str, int]]:
    """By worker, every counter that is not what it is at rest: empty when nothing is held."""
    found = {worker: _held(account) for worker, account in accounts.items()}
    held = {worker: {name: count for name, count in each.items() if count} for worker, each in found.items()}
    return {worker: each for worker, each in held.items() if each}


def _held(account: MemoryAccount) -> dict[str, int]:
    leases, borrowed, pulls, blobs, node = account.leases, account.borrowed, account.pulls, account.blobs, account.node
    found = {
        "leases": leases.leases_now,
        "leased pages": leases.pages_now,
        "loans": borrowed.leases_now,
        "borrowed pages": borrowed.pages_now + borrowed.pages_in_place_now,
        "pulls": pulls.sending_now + pulls.receiving_now,
        "blobs": blobs.blobs_now,
        "blob bytes": blobs.bytes_now,
        "lent blobs": blobs.leases_now,
        "mapped blobs": blobs.mapped_now,
        "jobs": node.jobs_now,
        "activations": node.activations_now,
        "retained bytes": node.retained_bytes_now,
        "spilled bytes": node.spilled_bytes_now,
    }
    for pool in account.pools:
        found |= _held_of(pool)
    return found


def _held_of(pool: PoolAccount) -> dict[str, int]:
    """Pages that are kept for reuse are no leak: each is held once, by the index."""
    return {
        "pinned": pool.pinned,
        "leases of the pool": pool.leases,
        "pages of the pool that are leased": pool.leased,
        "pages that no index has": pool.held - pool.indexed,
        "references beside the index's": pool.references - pool.indexed,
        "pages lost": pool.own - pool.free - pool.held - pool.withheld,
        "pages withheld": pool.withheld + pool.book.withheld,
        "extents of the dead": pool.book.orphaned,
        "extents lost": pool.book.extents - pool.book.free - pool.book.owned,
    }
