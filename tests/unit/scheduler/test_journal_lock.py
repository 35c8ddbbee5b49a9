"""A scheduler that takes over waits for the journal until the one that led before has let go of it."""

import asyncio
import fcntl
from pathlib import Path

from omniflow_scheduler.journal_lock import until_released


async def test_a_journal_that_is_held_is_waited_for(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        waiting = asyncio.create_task(until_released(tmp_path, within=20))
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done
        fcntl.flock(holder, fcntl.LOCK_UN)
        assert await waiting


async def test_one_that_is_held_for_too_long_is_given_up(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert not await until_released(tmp_path, within=0.05)


async def test_nobody_holds_a_journal_that_is_not_there_yet(tmp_path: Path) -> None:
    assert await until_released(tmp_path / "journal", within=0)
