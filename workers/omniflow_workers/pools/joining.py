"""How a process comes to its share of a pool."""

from __future__ import annotations

import time

from omniflow_core import (
    AddressInUse,
    ArenaChannel,
    ArenaError,
    ArenaLayout,
    ArenaListener,
    ChannelHungUp,
    ChannelTimeout,
)
from omniflow_workers.arenas import Arena, create_arena, open_arena
from omniflow_workers.pools.addresses import PoolAddress
from omniflow_workers.pools.clock import now_ms
from omniflow_workers.pools.errors import PoolUnavailableError
from omniflow_workers.pools.keeper import Keeper, arena_words
from omniflow_workers.pools.locks import PoolLocks
from omniflow_workers.pools.member import Member
from omniflow_workers.pools.shape import PoolShape, extent_pages
from omniflow_workers.pools.share import PoolShare
from omniflow_workers.pools.wire import Kind, Message, say

PATIENCE_S = 60.0
_RETRY_S = 0.02


def join_pool(
    layout: ArenaLayout,
    *,
    cluster: str = "",
    reserved: int = 1,
    limit: int | None = None,
    patience: float = PATIENCE_S,
) -> PoolShare:
    """This process's share of the pool of pages that are laid out so, on their device, in this cluster.

    The first process of a host's user makes it, with `layout.pages` pages; who comes later takes it as large as it is
    (`share.arena.layout.pages`). The first `reserved` pages are all zeros and nobody's. `limit`: pages that this
    process may have at once; None: all of them. It begins with none: `grow`.

    Raises `PoolUnavailableError` when its keeper does not answer within `patience` seconds, `ArenaMismatch` when it is
    another device by the same name, `OutOfMemory`, `DeviceUnavailableError`.
    """
    address = PoolAddress.of(layout, cluster)
    until = time.monotonic() + patience
    keeper: Keeper | None = None
    while True:
        if keeper is not None and not keeper.alive:
            keeper = None
        try:
            channel = ArenaChannel.connect(address.keeper)
        except ArenaError:  # nobody keeps it: a new pool, unless members of one are about to
            if not address.has_members():
                keeper = _keeper(address, layout, reserved, limit) or keeper
        else:
            share = _enter(address, layout, channel, limit, keeper, until)
            if share is not None:
                return share
        if time.monotonic() > until:
            if keeper is not None:
                keeper.close()
            raise PoolUnavailableError(
                f"the pool of KV pages on {layout.device} takes nobody in for {patience:.0f} s: its keeper, or another "
                "worker whose word it waits for, is stopped or hangs; end or continue that process"
            )
        time.sleep(_RETRY_S)


def _keeper(address: PoolAddress, layout: ArenaLayout, reserved: int, limit: int | None) -> Keeper | None:
    """Of a new pool. None: somebody else was quicker, or its old members live."""
    try:
        listener = ArenaListener(address.keeper)
    except AddressInUse:
        return None
    if address.has_members():
        return None  # the address is free again with the listener
    # Only what is used of the host's memory is taken: large pages would take what lies beside it.
    arena = create_arena(layout, huge_pages=False)
    if layout.device != "cpu":  # what masked slots hold is still multiplied, by 0: it must be numbers
        _zero(arena)
    shape = PoolShape(layout.pages, reserved, extent_pages(min(limit or layout.pages, layout.pages - reserved)))
    return Keeper(listener, arena, shape, lost=False)


def _enter(
    address: PoolAddress,
    layout: ArenaLayout,
    channel: ArenaChannel,
    limit: int | None,
    keeper: Keeper | None,
    until: float,
) -> PoolShare | None:
    """None: the keeper went, or did not answer in time."""
    try:
        channel.send(say(Kind.HELLO).encode(), patience=_left(until))
        (offered,) = channel.take(patience=_left(until))
        welcome = _until(Kind.WELCOME, channel, until)[-1]
        owner, pages, reserved, size = welcome.numbers
        wanted = ArenaLayout(
            layout.content,
            page_bytes=layout.page_bytes,
            pages=pages,
            fingerprint=layout.fingerprint,
            device=layout.device,
        )
        arena = open_arena(offered, wanted)
    except (ChannelHungUp, ChannelTimeout, TimeoutError):
        return None
    allocator = arena.book.allocator(reserved)
    shape = PoolShape(pages, reserved, size)
    most = shape.extents if limit is None else min(shape.extents, max(1, limit // size))
    locks = PoolLocks(arena.book.fileno())
    shown = address.show(owner)
    member = Member(owner, arena_words(arena), shape, allocator, locks, most)
    try:
        if not locks.be(owner):
            raise PoolUnavailableError(
                f"another process is owner {owner} of the pool: its keeper is no longer to be trusted"
            )
        # Whoever keeps the next book waits for this process from here on; until then, it begins again.
        channel.send(say(Kind.WANT, 0).encode(), patience=_left(until))
        for message in _until(Kind.ANSWERED, channel, until):
            # A death, say: its pages are handed out again when this process, too, has said that it reads none.
            for answer in member.heard(message, now_ms()):
                channel.send(answer.encode(), patience=_left(until))
    except (ChannelHungUp, ChannelTimeout, TimeoutError):
        locks.close()
        shown.close()
        return None
    except BaseException:
        locks.close()
        shown.close()
        raise
    return PoolShare(address, arena, member, allocator, locks, shown, channel, keeper)


def _until(kind: Kind, channel: ArenaChannel, until: float) -> list[Message]:
    """What comes up to that kind of message, which is the last one."""
    heard: list[Message] = []
    while not heard or heard[-1].kind is not kind:
        heard.append(Message.decode(channel.receive(patience=_left(until))[0]))
    return heard


def _left(until: float) -> float:
    """Seconds. Raises `TimeoutError` when none are left."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _zero(arena: Arena) -> None:
    import torch

    arena.tensor(torch.uint8, (arena.layout.data_bytes,)).zero_()
    arena.settle()
