"""Pages of KV between workers: who lends them until when, and how they come (`proto/omniflow/v1/data.proto`).

`DataService` lends an engine's pages (`PageSource`) to other workers; `DataPeers` borrows theirs. Importing this does
not import torch.
"""

from omniflow_workers.shares_pages import SharesPages
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
    Reading,
    Transfer,
    Way,
)
from omniflow_workers.transfer.clock import now_ms
from omniflow_workers.transfer.directory import Directory, EtcdDirectory, FixedDirectory
from omniflow_workers.transfer.errors import (
    LeaseGone,
    PeerLost,
    PeerMisbehaved,
    PullFailed,
    Refused,
    TransferError,
)
from omniflow_workers.transfer.identity import Identity
from omniflow_workers.transfer.limits import TransferLimits
from omniflow_workers.transfer.peers import DataPeers
from omniflow_workers.transfer.pools import MappedArena, SharedPool
from omniflow_workers.transfer.service import DataService

__all__ = [
    "DEFAULT_TTL_S",
    "Acquired",
    "Borrowed",
    "DataPeers",
    "DataService",
    "Directory",
    "EtcdDirectory",
    "FillAccount",
    "FixedDirectory",
    "Generations",
    "Identity",
    "LeaseGone",
    "MappedArena",
    "PageIds",
    "PagePool",
    "PageSource",
    "PeerLost",
    "PeerMisbehaved",
    "Peers",
    "PullFailed",
    "PullReport",
    "Reading",
    "Refused",
    "SharedPool",
    "SharesPages",
    "Transfer",
    "TransferError",
    "TransferLimits",
    "Way",
    "now_ms",
]
