"""Clients of a cluster: `Client` for asyncio, `SyncClient` for threads, with the same names."""

from omniflow.client.client import Client
from omniflow.client.job import Frame, Job
from omniflow.client.sync import SyncClient, SyncJob

__all__ = ["Client", "Frame", "Job", "SyncClient", "SyncJob"]
