"""Room on the disk, taken before a long write: a full disk is said at once, and with figures."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from omniflow_workers.weights.errors import NoRoomForWeights

FULL = (errno.ENOSPC, errno.EDQUOT)


def reserve(file: BinaryIO, path: Path, needed: int) -> None:
    """Makes `file`, open for writing at `path`, `needed` bytes long, on disk. Raises `NoRoomForWeights`."""
    free = free_at(path.parent)
    if needed > free:
        raise NoRoomForWeights(path.parent, needed, free)
    try:
        os.posix_fallocate(file.fileno(), 0, needed)
    except OSError as error:
        if error.errno in FULL:  # a quota, or somebody was quicker
            raise NoRoomForWeights(path.parent, needed, free_at(path.parent)) from error
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # file systems that cannot: the write itself will tell
            raise


def free_at(folder: Path) -> int:
    """Bytes that this user may still write there."""
    return shutil.disk_usage(folder).free
