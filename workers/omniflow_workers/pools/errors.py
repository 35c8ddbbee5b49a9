"""What can go wrong with a pool."""

from __future__ import annotations


class PoolUnavailableError(RuntimeError):
    """The pool cannot be joined; the message says why, and what to do."""


class OwnerGoneError(RuntimeError):
    """The owner of the pages is dead: a lease of it that is not registered by now came too late."""

    def __init__(self, owner: int) -> None:
        super().__init__(f"owner {owner} of the pages is dead: compute them, or get them from another worker")
        self.owner = owner
