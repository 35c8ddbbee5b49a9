"""How a pool is cut into extents."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_EXTENT = 512
"""Pages: what is withheld of an extent fits into one message."""


@dataclass(frozen=True, slots=True)
class PoolShape:
    """`pages`: of the pool, of which the first `reserved` are never handed out; `extent_pages`: of an extent. What is
    behind the last whole extent is not used."""

    pages: int
    reserved: int
    extent_pages: int

    def pages_of(self, extent: int) -> range:
        first = self.reserved + extent * self.extent_pages
        return range(first, first + self.extent_pages)

    def extent_of(self, page: int) -> int:
        return (page - self.reserved) // self.extent_pages

    @property
    def extents(self) -> int:
        return max(0, self.pages - self.reserved) // self.extent_pages


def extent_pages(limit: int) -> int:
    """Pages of an extent, for a process that may have `limit` pages: about 32 extents."""
    return min(max(1, limit // 32), LARGEST_EXTENT)
