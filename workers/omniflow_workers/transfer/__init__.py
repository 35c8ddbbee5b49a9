"""Pages of KV between workers: who lends them until when, and how they come (`proto/omniflow/v1/data.proto`).

`DataService` lends an engine's pages (`PageSource`) to other workers; `DataPeers` borrows theirs. Importing this does
not import torch.
"""

from omniflow_workers.transfer.base import (
    DEFAULT_TTL_S,
    Acquired,
    Borrowed,
    FillAccount,
    Generations,
    PageIds,
    PagePool,
    PageSource,
    Peers,
    PullReport,
    SharesPages,
    Transfer,
    Way,
)
from omniflow_workers.transfer.clock import now_ms
from omniflow_workers.transfer.errors import (
    LeaseGone,
    PeerLost,
    PeerMisbehaved,
    PullFailed,
    Refused,
    TransferError,
)

__all__ = [
    "DEFAULT_TTL_S",
    "Acquired",
    "Borrowed",
    "FillAccount",
    "Generations",
    "LeaseGone",
    "PageIds",
    "PagePool",
    "PageSource",
    "PeerLost",
    "PeerMisbehaved",
    "Peers",
    "PullFailed",
    "PullReport",
    "Refused",
    "SharesPages",
    "Transfer",
    "TransferError",
    "Way",
    "now_ms",
]
