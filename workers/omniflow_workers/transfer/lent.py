"""What an owner says that it lends, held to what can be."""

from __future__ import annotations

import numpy as np

from omniflow.v1.data_pb2 import PagesAcquired
from omniflow_workers.transfer.base import Generations, PageIds

_ID = np.dtype("<u4")
_GENERATION = np.dtype("<u8")
_MOST_PAGE_BYTES = 1 << 40


def lent_pages(acquired: PagesAcquired, asked: int, ttl_ms: int) -> tuple[PageIds, Generations]:
    """Ids and generations of a lease on a prefix of `asked` keys. Raises ValueError naming what cannot be."""
    ids, generations = acquired.pages, acquired.generations
    if len(ids) % _ID.itemsize or len(ids) // _ID.itemsize * _GENERATION.itemsize != len(generations):
        raise ValueError(f"{len(ids)} bytes of page ids, {len(generations)} of generations")
    pages = len(ids) // _ID.itemsize
    if not 1 <= pages <= asked:
        raise ValueError(f"{pages} pages for {asked} keys")
    if not 1 <= acquired.page_bytes <= _MOST_PAGE_BYTES:
        raise ValueError(f"pages of {acquired.page_bytes} bytes")
    if not 1 <= acquired.ttl_ms <= ttl_ms:
        raise ValueError(f"a lease of {acquired.ttl_ms} ms where {ttl_ms} were asked for")
    return (
        np.frombuffer(ids, _ID).astype(np.uint32, copy=False),
        np.frombuffer(generations, _GENERATION).astype(np.uint64, copy=False),
    )
