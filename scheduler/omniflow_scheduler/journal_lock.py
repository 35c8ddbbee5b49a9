"""The journal's lock, seen from outside: whether the scheduler that led before has let go of it."""

import asyncio
import fcntl
import os
import time
from pathlib import Path

LOOK_EVERY_S = 0.02


async def until_released(folder: Path, within: float) -> bool:
    """Whether nobody holds the journal in `folder`, waiting up to `within` seconds for that.

    The kernel takes the lock from a killed process with its last thread, a moment after it is known to be dead; one
    that is superseded lets go of it when it has heard of that. Nobody tells of either, so this looks.
    """
    give_up_at = time.monotonic() + within
    while _is_held(folder / "lock"):
        if time.monotonic() >= give_up_at:
            return False
        await asyncio.sleep(LOOK_EVERY_S)
    return True


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # there is none yet; what else is wrong is told by opening the journal
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
