"""Named points at which a test can have the process die, as the Rust side has them (`core-rs/hub/src/stop_at.rs`)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "OMNIFLOW_STOP_AT"


def stop_at(point: str) -> None:
    """With `OMNIFLOW_STOP_AT=FOLDER`, the process dies here as by `kill -9`, where a file `point` lies in that folder.

    The file goes first, so that it dies once and not in its next life.
    """
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return
    try:
        (Path(folder) / point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
