"""Waits for work, unless something else happens first."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")


async def race(work: Coroutine[Any, Any, None], events: Mapping[Key, asyncio.Event]) -> Key | None:
    """None when `work` is done; else the key of the event that was set before, and `work` is cancelled.

    What `work` raises is raised as it is. Nothing runs on after this returns.
    """
    task = asyncio.ensure_future(work)
    watches = {asyncio.ensure_future(event.wait()): key for key, event in events.items()}
    try:
        done, _ = await asyncio.wait([task, *watches], return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            task.result()
            return None
        return next(key for watch, key in watches.items() if watch in done)
    finally:
        for pending in (task, *watches):
            pending.cancel()
        await asyncio.gather(task, *watches, return_exceptions=True)
