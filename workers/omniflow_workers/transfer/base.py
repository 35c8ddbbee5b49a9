"""What the data plane asks of an engine, and what an engine gets from it.

An owner lends its pages by leases; a borrower reads them in place (one pool on one host) or pulls them into pages of
its own. Page ids are uint32 and generations uint64, both of shape (n,); times are milliseconds of `now_ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from omniflow_core import PageKeys

if TYPE_CHECKING:
    import torch

    from omniflow.v1.data_pb2 import MemoryAccount

PageIds = NDArray[np.uint32]
Generations = NDArray[np.uint64]
Transfer = Literal["auto", "local", "collective"]
"""How pages may come: where they lie, sent between the two processes, or whichever is possible, in this order."""
Way = Literal["local", "collective"]
FillAccount = Callable[["MemoryAccount"], None]
"""Writes a part of the account; called from any thread."""

DEFAULT_TTL_S = 10.0
"""Of a lease. It is renewed at a third of it, so this bounds how long a hung borrower holds pages."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """What a source lends: a page for each key, from the first one on; at least one.

    `lease`: the source's own number, for `renew` and `end`.
    """

    pages: PageIds
    generations: Generations
    lease: int


class PageSource(Protocol):
    """An engine's pages, to lend and to be filled. All methods may be called from any thread.

    `model`: the fingerprint of the weights; `layout`: `KvLayout.describe()`; `page_bytes`: of one page over all layers;
    `device`: "cpu", "cuda:0"; `pool`: id of the arena in which the pages lie, when other processes may map it;
    `pool_owner`: this process's number in that pool, 0 without one.
    """

    @property
    def model(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def page_tokens(self) -> int: ...
    @property
    def page_bytes(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def pool(self) -> bytes | None: ...
    @property
    def pool_owner(self) -> int: ...

    def acquire(self, keys: PageKeys, holder: int, until_ms: int, /) -> Acquired | None:
        """Leases the longest known prefix to `holder`; None when not even the first page is known."""

    def renew(self, lease: int, now_ms: int, until_ms: int, /) -> None:
        """Moves the end of a lease. Raises `UnknownLease` when it has ended."""

    def end(self, lease: int, /) -> None:
        """Ends a lease. Raises `UnknownLease` when it has ended already."""

    def gather(self, pages: PageIds, into: torch.Tensor, /) -> None:
        """Copies pages out: `into` is uint8 of shape (n, page_bytes), on the source's device or in main memory.
        Complete when this returns."""

    def scatter(self, pages: PageIds, rows: torch.Tensor, /) -> None:
        """Copies such rows into pages that the caller holds. Complete when this returns."""


class Reading(Protocol):
    """Says to a pool's book that pages are read in place here, so that they stay when their owner dies."""

    def renew(self, until_ms: int, /) -> None:
        """Until then."""

    def end(self) -> None:
        """No more. Harmless when done before."""


class PagePool(Protocol):
    """A pool that this process maps, and reads in place (`pools.SharedPool`)."""

    @property
    def id(self) -> bytes: ...
    def read(self, owner: int, pages: PageIds, until_ms: int, /) -> Reading | None:
        """These pages, leased by that owner of the pool, are read here. None when it is known to be dead."""

    def verify_all(self, pages: PageIds, generations: Generations, /) -> None:
        """Raises `StalePage` for the first page that has been freed since its generation was noted, `UnknownPage` for
        one that is none. All that was read before has been read when it checks."""


@dataclass(frozen=True, slots=True)
class PullReport:
    """What a pull did. `seconds`: from the call to the last page in place; `bytes`: copied, on whatever way."""

    pages: int
    bytes: int
    seconds: float
    way: Way


class Borrowed(Protocol):
    """Pages of another worker, leased until released; renewed in the background meanwhile. Safe to use from any thread.

    `in_place`: they lie in a pool that this process maps too, and are read there by their ids.
    """

    @property
    def worker(self) -> str: ...
    @property
    def pages(self) -> PageIds:
        """The owner's ids: what to index the pool with when `in_place`."""

    @property
    def generations(self) -> Generations: ...
    @property
    def in_place(self) -> bool: ...
    @property
    def page_bytes(self) -> int: ...
    @property
    def lost(self) -> bool:
        """The lease has ended, or its owner has gone: pages in place may change at any time (`verify`)."""

    def verify(self) -> None:
        """Call it after the last read and before any output leaves. Raises `StalePage` when what was read may not be
        what was leased: compute it again."""

    def pull(self, sink: PageSource, target: PageIds, *, first: int = 0, timeout: float = ...) -> PullReport:
        """Copies pages `first` to `first + len(target)` into `target`, pages that the caller holds in `sink`.

        When it raises, what lies in `target` is to be used for nothing, and is written to no more; nothing stays
        pinned. Raises `StalePage`, `PullFailed`, `PeerLost`.
        """

    def release(self) -> None:
        """Gives them back. Harmless when done before."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Peers(Protocol):
    """The other workers' pages. Safe to use from any thread."""

    def share(self, pool: PagePool) -> None:
        """This process maps that pool: pages there are read in place."""

    def workers(self, model: str, layout: str) -> list[str]:
        """Who is registered with such pages: this worker only if more than one of its roles has some."""

    def acquire(
        self, worker: str, model: str, layout: str, keys: PageKeys, *, ttl: float = DEFAULT_TTL_S
    ) -> Borrowed | None:
        """Borrows the longest prefix that the worker knows; None when it knows nothing of it. Raises `PeerLost` when it
        cannot be reached, is gone, or does not answer in time."""

    def best(
        self, model: str, layout: str, keys: PageKeys, *, ttl: float = DEFAULT_TTL_S, within: float = ...
    ) -> Borrowed | None:
        """Asks all who have such pages at once, and borrows from the one that knows most. Who does not answer `within`
        so many seconds is passed over. None when nobody knows anything."""

    def account(self, into: MemoryAccount) -> None:
        """Adds `borrowed`, and what was received to `pulls`."""
