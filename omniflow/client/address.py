"""Where the scheduler is: told, or found through etcd. Of several addresses, the one that serves is the leader's."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
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

    @property
    def good_for_s(self) -> float:
        """Who does not answer for so long at what was found is looked for again."""

    async def find(self, within: float) -> Sequence[str]:
        """HOST:PORT of each that may serve. Raises `Unavailable` (`NoLeader`, `RegistryUnreachable`) after `within`
        seconds."""


class FixedAddresses:
    """The user told: one address, or those of all schedulers of the cluster, of which one serves at a time."""

    good_for_s = math.inf

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        self.words = " or ".join(self._addresses)

    async def find(self, within: float) -> Sequence[str]:
        return self._addresses


class LeaderAddress:
    """The cluster's leader, as etcd has it: asked again after every break, for it may be another one by then.

    And again while that does not answer: a dead leader is found there until another one is elected.
    """

    good_for_s = 1.0

    def __init__(self, etcd: str | Sequence[str], cluster: str) -> None:
        self._etcd = etcd
        self._cluster = cluster
        self.words = f"the leader of cluster {cluster!r}"

    async def find(self, within: float) -> Sequence[str]:
        # Most clients are told the address, and need not pay for importing what talks to etcd.
        from omniflow.registry import Registry

        async with Registry(self._etcd, self._cluster) as registry:
            return ((await registry.wait_leader(within)).address,)


def split_addresses(address: str | Sequence[str]) -> tuple[str, ...]:
    """One address, or several in a sequence or between commas."""
    several = address.split(",") if isinstance(address, str) else address
    return tuple(dict.fromkeys(each.strip() for each in several if each.strip()))


class Dialer:
    """The one channel of a client: opened at first use, and anew when the scheduler moved."""

    def __init__(self, finder: Finder, connect_timeout: float) -> None:
        self._finder = finder
        self._timeout = connect_timeout
        self._address = ""
        self._channel: grpc.aio.Channel | None = None
        self._connecting = asyncio.Lock()

    @property
    def address(self) -> str:
        """HOST:PORT of the scheduler that served when last connected; empty before that."""
        return self._address

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
            opened: dict[str, grpc.aio.Channel] = {}
            if self._channel is not None:
                opened[self._address] = self._channel
            try:
                self._address = await self._first_connected(opened)
                self._channel = opened[self._address]
                return self._channel
            finally:
                for channel in opened.values():
                    if channel is not self._channel:
                        await channel.close(None)

    async def _first_connected(self, opened: dict[str, grpc.aio.Channel]) -> str:
        """Adds the channels that it opens."""
        give_up_at = time.monotonic() + self._timeout
        while (left := give_up_at - time.monotonic()) > 0:
            candidates = {}
            for address in await self._finder.find(left):
                if address not in opened:
                    opened[address] = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
                candidates[address] = opened[address]
            left = max(give_up_at - time.monotonic(), 0.0)
            connected = await first_connected(candidates, min(left, self._finder.good_for_s))
            if connected is not None:
                return connected
        raise unreachable(" or ".join(opened) or self.words, "connecting", f"no connection in {self._timeout:.0f} s")

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)


async def first_connected(channels: Mapping[str, grpc.aio.Channel], within: float) -> str | None:
    """The address whose channel is connected first: a scheduler that stands by does not answer. None: not in time."""
    waits = {asyncio.ensure_future(channel.channel_ready()): address for address, channel in channels.items()}
    try:
        done, _ = await asyncio.wait(waits, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    for wait in done:
        wait.result()
        return waits[wait]
    return None
