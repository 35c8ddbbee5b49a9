"""Where the scheduler is: told, or found through etcd."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import grpc.aio

from omniflow.client.failures import unreachable

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Two clients of one process have a connection each, so that closing one never touches the other.
    ("grpc.use_local_subchannel_pool", 1),
)


class Finder(Protocol):
    """Tells where the scheduler is now."""

    @property
    def words(self) -> str:
        """For messages: whom the client looks for, and where."""

    async def find(self, within: float) -> str:
        """HOST:PORT. Raises `Unavailable` (`NoLeader`, `RegistryUnreachable`) after `within` seconds."""


class FixedAddress:
    """The user told."""

    def __init__(self, address: str) -> None:
        self.words = address

    async def find(self, within: float) -> str:
        return self.words


class LeaderAddress:
    """The cluster's leader, as etcd has it: asked again after every break, for it may be another one by then."""

    def __init__(self, etcd: str | Sequence[str], cluster: str) -> None:
        self._etcd = etcd
        self._cluster = cluster
        self.words = f"the leader of cluster {cluster!r}"

    async def find(self, within: float) -> str:
        # Most clients are told the address, and need not pay for importing what talks to etcd.
        from omniflow.registry import Registry

        async with Registry(self._etcd, self._cluster) as registry:
            return (await registry.wait_leader(within)).address


class Dialer:
    """The one channel of a client: opened at first use, and anew when the scheduler moved."""

    def __init__(self, finder: Finder, connect_timeout: float) -> None:
        self._finder = finder
        self._timeout = connect_timeout
        self._address = ""
        self._channel: grpc.aio.Channel | None = None
        self._connecting = asyncio.Lock()

    @property
    def words(self) -> str:
        """For messages."""
        return self._address or self._finder.words

    async def channel(self) -> grpc.aio.Channel:
        """The current channel, without asking whether it is connected."""
        return self._channel or await self.connect()

    async def connect(self) -> grpc.aio.Channel:
        """A connected channel to where the scheduler is now. Raises `Unavailable` after the connect time-out."""
        async with self._connecting:
            address = await self._finder.find(self._timeout)
            if address != self._address or self._channel is None:
                await self.close()
                self._address = address
                self._channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
            await wait_connected(self._channel, address, self._timeout)
            return self._channel

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)


async def wait_connected(channel: grpc.aio.Channel, address: str, within: float) -> None:
    """Raises `Unavailable` after `within` seconds."""
    try:
        async with asyncio.timeout(within):
            await channel.channel_ready()
    except TimeoutError:
        raise unreachable(address, "connecting", f"no connection in {within:.0f} s") from None
