"""What `status --memory` shows: where the workers' bytes are, and who holds them."""

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from rich.table import Table

from omniflow.cli.consoles import plain_table
from omniflow.v1.cluster_pb2 import WorkerMemory
from omniflow.v1.data_pb2 import MemoryAccount, PoolAccount

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def pages_table(workers: Iterable[WorkerMemory]) -> Table:
    """One row for the KV pages of each model on each worker; a row that says so for a worker that has none, or does not
    answer."""
    names = ("own", "held", "indexed", "pinned", "lent", "free")
    table = plain_table("worker", "weights", *names, "in use", right=(*names, "in use"))
    for worker in workers:
        if not worker.account.pools:
            why = f"[red]silent[/red]: {_first_line(worker.silent)}" if worker.silent else "no pages"
            table.add_row(worker.worker, why, *[""] * (len(names) + 1))
            continue
        for pool in worker.account.pools:
            counts = (pool.own, pool.held, pool.indexed, pool.pinned, pool.leased, pool.free)
            used = describe_bytes(pool.held * pool.page_bytes)
            table.add_row(worker.worker, pool.model[:12], *[f"{count:,}" for count in counts], used)
    return table


def sharing_lines(workers: Iterable[WorkerMemory]) -> list[str]:
    """For each worker that answered, what goes between it and others."""
    return [f"{worker.worker}: {_sharing(worker.account)}" for worker in workers if worker.HasField("account")]


def memory_json(workers: Sequence[WorkerMemory]) -> list[dict[str, Any]]:
    """For each worker its account as in data.proto, zeros too; or null, and why it is silent (empty: it shares no
    pages)."""
    return [
        {
            "worker": worker.worker,
            "account": MessageToDict(
                worker.account, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            if worker.HasField("account")
            else None,
            "silent": worker.silent,
        }
        for worker in workers
    ]


def describe_bytes(size: float) -> str:
    """Four digits at most: "0 B", "720 KiB", "1.25 GiB"."""
    unit = 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


def _sharing(account: MemoryAccount) -> str:
    leases, borrowed, pulls, blobs = account.leases, account.borrowed, account.pulls, account.blobs
    said = [
        f"lends {leases.pages_now:,} pages ({leases.leases_now:,} leases, {leases.granted:,} so far)",
        f"reads {borrowed.pages_now:,} of others, {borrowed.pages_in_place_now:,} in place "
        f"({borrowed.acquired:,} leases so far)",
        f"pulled {describe_bytes(pulls.received_bytes)}, sent {describe_bytes(pulls.sent_bytes)}",
    ]
    if blobs.capacity_bytes:
        said.append(f"{blobs.blobs_now:,} values by handle ({describe_bytes(blobs.bytes_now)})")
    said += [_stored(pool) for pool in account.pools if pool.HasField("stored")]
    said += [_book(pool) for pool in account.pools if pool.HasField("book")]
    return "; ".join(said)


def _stored(pool: PoolAccount) -> str:
    """Of pages that outlive the pool."""
    stored = pool.stored
    return (
        f"{stored.stored:,} of {stored.total:,} pages on disk ({stored.written:,} written, "
        f"{stored.read:,} read for {stored.hits:,} prompts so far)"
    )


def _book(pool: PoolAccount) -> str:
    """Of a pool that workers share, as the one that keeps its book knows it."""
    book = pool.book
    return (
        f"pool of {book.owners_now:,} workers: {book.owned:,} of {book.extents:,} extents in use, "
        f"{book.orphaned:,} of dead workers, {book.withheld:,} pages of theirs still read"
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no reason given"
