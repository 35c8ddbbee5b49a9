"""Pages of KV from Python: 512 allocated and freed, forked, leased, brought from tier to tier, beside vLLM and SGLang.

A pool of 65,536 pages. Each figure is the mean of a call, median of alternating measurements. What is allocated counts
until its page ids can be read and its pages are free again.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from peer_process import Peer, sglang_pages, vllm_pages
from rows import Row, alone, compared, show

from omniflow_core import PageAllocator, PageRun, PageTiers

POOL_PAGES = 65_536
PAGES = 512
CALLS = 2_000
AT_LEAST = 10.0
READER = 7

Work = Callable[[], object]


def arguments() -> argparse.Namespace:
    """How long to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="alternating measurements of ours and of each peer")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    return parser.parse_args()


def mean_us(work: Work, calls: int = CALLS) -> float:
    """Does it again and again."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls * 1e6


def allocate_and_free(allocator: PageAllocator) -> Work:
    """512 pages, their ids, and back."""

    def work() -> None:
        run = allocator.allocate(PAGES)
        memoryview(run)
        run.release()

    return work


def scattered() -> tuple[PageAllocator, list[PageRun]]:
    """A pool of which every second page is in use: no two free pages are neighbours."""
    allocator = PageAllocator(POOL_PAGES)
    runs = [allocator.allocate(1) for _ in range(POOL_PAGES - 1)]
    return allocator, runs[1::2]


@contextmanager
def busy_thread() -> Iterator[None]:
    """Another thread of this process computes in Python, as roles do."""
    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def beside(work: Work, peer: Peer, pairs: int) -> Row:
    """Alternating measurements of ours and of a peer, or ours alone."""
    name = f"{PAGES} pages allocated and freed"
    if peer.missing:
        return alone(f"{name}, beside {peer.name or 'a peer'}", mean_us(work), "µs", why=peer.missing)
    figures = [(mean_us(work), float(peer.order(work="allocate and free")["us"])) for _ in range(pairs)]
    ours, theirs = zip(*figures, strict=True)
    return compared(f"{name}, beside {peer.name}", ours, theirs, "µs", at_least=AT_LEAST, less_is_better=True)


def peer_rows(options: argparse.Namespace) -> list[Row]:
    """What the peers do, too."""
    work = allocate_and_free(PageAllocator(POOL_PAGES))
    rows = []
    for peer in (vllm_pages(), sglang_pages()):
        if options.no_peers:
            peer.missing = "left out"
        if peer.missing:
            rows.append(beside(work, peer, options.pairs))
            continue
        with peer:
            rows.append(beside(work, peer, options.pairs))
    return rows


def our_rows(pairs: int) -> list[Row]:
    """What only we do."""
    allocator = PageAllocator(POOL_PAGES)
    run = allocator.allocate(PAGES)
    broken, held = scattered()
    works: dict[str, Work] = {
        "the same, no two free pages neighbours": allocate_and_free(broken),
        "a fork of 512 pages, and its end": lambda: run.share().release(),
        "a fork that writes its last page, and its end": lambda: write_last(run),
        "a lease on 512 pages, and its end": lambda: allocator.end_lease(run.lease(READER, 1)),
        "512 pages found on the device, held and let go": tiers_hit(allocator, run),
    }
    rows = [alone(name, statistics.median(mean_us(work) for _ in range(pairs)), "µs") for name, work in works.items()]
    with busy_thread():
        us = mean_us(allocate_and_free(allocator))
    rows.append(alone("512 pages allocated and freed while another thread computes", us, "µs"))
    assert len(held) == POOL_PAGES // 2 - 1
    return rows


def write_last(run: PageRun) -> None:
    """One page to copy; the copy itself is the engine's."""
    with run.share() as fork, fork.write(PAGES - 1, PAGES) as copies:
        assert len(copies) == 1


def tiers_hit(allocator: PageAllocator, run: PageRun) -> Work:
    """A sequence whose entries are all on the device."""
    tiers = PageTiers(allocator)
    entries = tiers.insert(run, 0, PAGES, recompute_us=1_000, bytes=1 << 20, chance=0.5)
    return lambda: tiers.acquire(entries).run.release()


def main() -> None:
    """Prints the rows."""
    options = arguments()
    show(peer_rows(options) + our_rows(options.pairs))


if __name__ == "__main__":
    main()
