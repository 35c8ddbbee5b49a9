"""One pool of KV pages per device and layout, mapped whole by every worker of a host that has such pages.

`join_pool` gives a process its share: it allocates from extents of its own and reads any other page in place, under a
lease of the page's owner. How the pool is kept, and what a death changes: `docs/architecture.md`.
"""

from omniflow_workers.pools.clock import now_ms
from omniflow_workers.pools.errors import OwnerGoneError, PoolUnavailableError
from omniflow_workers.pools.joining import join_pool
from omniflow_workers.pools.reading import Reading
from omniflow_workers.pools.share import PoolShare

__all__ = ["OwnerGoneError", "PoolShare", "PoolUnavailableError", "Reading", "join_pool", "now_ms"]
