"""What a role says whose engine lends pages to other workers, and borrows theirs. Light: every worker looks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from omniflow.v1.data_pb2 import MemoryAccount
    from omniflow_workers.transfer.base import PageSource, Peers


@runtime_checkable
class SharesPages(Protocol):
    """The worker starts its data service for such roles alone."""

    @property
    def page_source(self) -> PageSource:
        """Valid after `load`."""

    def meet(self, peers: Peers) -> None:
        """Called once, after `load` and before the first activation: by these it borrows. They are closed after
        `unload`."""

    def account(self, into: MemoryAccount) -> None:
        """Adds what this role knows of its memory (`pools`, `arenas`). Called from any thread."""
