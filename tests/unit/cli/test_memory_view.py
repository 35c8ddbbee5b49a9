"""`status --memory` says of each worker what it holds, or that it is silent."""

import json

from rich.console import Console

from omniflow.cli.memory_view import describe_bytes, pages_table, sharing_lines
from omniflow.cli.status_view import status_json
from omniflow.v1.cluster_pb2 import WorkerMemory
from omniflow.v1.data_pb2 import (
    BorrowAccount,
    LeaseAccount,
    MemoryAccount,
    PoolAccount,
    PoolBookAccount,
    PullAccount,
    StoredAccount,
)

POOL = PoolAccount(model="ab" * 32, page_bytes=737_280, total=728, own=728, held=40, indexed=36, leased=12, free=688)
SPEAKS = WorkerMemory(
    worker="one",
    account=MemoryAccount(
        pools=[POOL],
        leases=LeaseAccount(pages_now=12, leases_now=1, granted=3),
        borrowed=BorrowAccount(acquired=2),
        pulls=PullAccount(received_bytes=3 << 20),
    ),
)
SILENT = WorkerMemory(worker="two", silent="unix:@x: nobody listens\nmore")
WITHOUT = WorkerMemory(worker="three")


def shown() -> str:
    console = Console(width=120, highlight=False)
    with console.capture() as captured:
        console.print(pages_table([SPEAKS, SILENT, WITHOUT, WorkerMemory(worker="four", account=MemoryAccount())]))
    return captured.get()


def test_pages_of_a_worker_are_counted_by_use() -> None:
    (row,) = [line for line in shown().splitlines() if line.strip().startswith("one ")]
    assert row.split() == ["one", "ab" * 6, "728", "40", "36", "0", "12", "688", "28.1", "MiB"]


def test_a_worker_that_does_not_answer_is_named_with_the_cause() -> None:
    (row,) = [line for line in shown().splitlines() if line.strip().startswith("two ")]
    assert "silent: unix:@x: nobody listens" in row


def test_a_worker_without_pages_is_named_and_not_called_silent() -> None:
    for name in ("three", "four"):
        (row,) = [line for line in shown().splitlines() if line.strip().startswith(f"{name} ")]
        assert row.split() == [name, "no", "pages"]


def test_what_goes_between_workers_is_a_line_of_each_that_answered() -> None:
    (line,) = sharing_lines([SPEAKS, SILENT])
    assert line.startswith("one: lends 12 pages (1 leases, 3 so far); reads 0 of others")
    assert "pulled 3 MiB, sent 0 B" in line


def test_who_keeps_the_book_of_a_pool_says_how_it_is_used() -> None:
    pool = PoolAccount(book=PoolBookAccount(owners_now=3, extents=64, owned=12, orphaned=2, withheld=5))
    (line,) = sharing_lines([WorkerMemory(worker="one", account=MemoryAccount(pools=[pool]))])
    assert line.endswith("pool of 3 workers: 12 of 64 extents in use, 2 of dead workers, 5 pages of theirs still read")


def test_who_keeps_pages_on_disk_says_how_many() -> None:
    pool = PoolAccount(stored=StoredAccount(total=2048, stored=1200, written=1500, read=900, hits=40))
    (line,) = sharing_lines([WorkerMemory(worker="one", account=MemoryAccount(pools=[pool]))])
    assert line.endswith("1,200 of 2,048 pages on disk (1,500 written, 900 read for 40 prompts so far)")


def test_the_json_form_has_every_counter_and_the_reason_of_silence() -> None:
    one, two = json.loads(status_json(None, None, [SPEAKS, SILENT]))["memory"]
    assert (one["account"]["pools"][0]["held"], one["account"]["leases"]["expired"]) == ("40", "0")
    assert (two["account"], two["silent"]) == (None, SILENT.silent)
    assert "memory" not in json.loads(status_json(None, None))


def test_sizes_are_short() -> None:
    assert [describe_bytes(size) for size in (0, 999, 1000, 737_280, 1.25 * 2**30)] == [
        "0 B",
        "999 B",
        "0.977 KiB",
        "720 KiB",
        "1.25 GiB",
    ]
