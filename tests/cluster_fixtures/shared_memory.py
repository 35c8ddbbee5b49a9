"""Names in /dev/shm: a folder of the whole machine, where others make and remove theirs meanwhile."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.02


def shared_names() -> set[str]:
    return set(os.listdir("/dev/shm"))


@contextmanager
def no_new_names_stay() -> Iterator[None]:
    """What appears in it is gone soon after it: what is ours is gone by then, what is there in passing is another's."""
    before = shared_names()
    yield
    until = time.monotonic() + PATIENCE_S
    while new := shared_names() - before:
        assert time.monotonic() < until, f"left in /dev/shm: {sorted(new)}"
        time.sleep(LOOK_EVERY_S)
