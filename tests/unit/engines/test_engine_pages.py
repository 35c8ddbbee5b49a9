"""What others may have of an engine's pages: by key, under a lease, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from omniflow_core import PageKeys, StalePage, UnknownLease
from omniflow_workers.engines.base import Chunk
from omniflow_workers.engines.sequence import page_ids
from omniflow_workers.engines.torch.service import Service, open_service

PROMPT = list(range(10, 39))  # three full pages of 8, and a part of one


@pytest.fixture
def service(models: Callable[[str], Path], cache: Path) -> Service:
    return open_service(str(models("llama")), cache, page_tokens=8, kv_bytes=64 * 3072)


def computed(service: Service) -> PageKeys:
    """The prompt's pages are in the index; their keys."""
    run = service.pages.allocator.allocate(3)
    service.engine.compute([Chunk(np.asarray(PROMPT[:24]), 0, page_ids(run), wants_logits=False)])
    chain = service.pages.new_chain("")
    chain.extend(np.asarray(PROMPT, np.int64))
    service.pages.take_in(chain, run)
    run.release()
    return chain.keys


def test_the_longest_known_prefix_is_leased_and_cannot_be_freed_meanwhile(service: Service) -> None:
    keys = computed(service)
    chain = service.pages.new_chain("")
    chain.extend(np.asarray([*PROMPT, *PROMPT], np.int64))
    leased = service.pages.acquire(chain.keys, holder=7, until_ms=1000)
    assert leased is not None
    assert len(leased.pages) == len(keys) == 3
    service.pages.index.evict(3)
    assert service.pages.allocator.counters()["held"] == 3
    service.pages.allocator.verify_all(leased.pages, leased.generations)
    service.pages.end(leased.lease)
    service.pages.index.evict(3)
    assert service.pages.allocator.counters()["held"] == 0
    with pytest.raises(StalePage):
        service.pages.allocator.verify_all(leased.pages, leased.generations)
    with pytest.raises(UnknownLease):
        service.pages.renew(leased.lease, 0, 2000)


def test_unknown_keys_lease_nothing(service: Service) -> None:
    computed(service)
    other = service.pages.new_chain("another tenant")
    other.extend(np.asarray(PROMPT, np.int64))
    assert service.pages.acquire(other.keys, holder=7, until_ms=1000) is None
    assert service.pages.allocator.counters()["leases"] == 0


def test_pages_written_elsewhere_give_the_scores_of_those_they_were_read_from(service: Service) -> None:
    keys = computed(service)
    leased = service.pages.acquire(keys, holder=7, until_ms=1000)
    assert leased is not None
    rows = torch.empty(3, service.pages.page_bytes, dtype=torch.uint8)
    service.pages.gather(leased.pages, rows)
    target = service.pages.allocator.allocate(4)
    service.pages.scatter(page_ids(target)[:3], rows)
    again = torch.empty_like(rows)
    service.pages.gather(page_ids(target)[:3], again)
    assert torch.equal(rows, again)
    rest = np.asarray(PROMPT[24:])
    own = service.pages.allocator.allocate(1)
    first, second = (
        service.engine.compute([Chunk(rest, 24, pages, wants_logits=True)])
        for pages in (np.concatenate((leased.pages, page_ids(own))), page_ids(target))
    )
    assert torch.equal(first, second)
