"""The command line, as a user calls it."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


async def omniflow(*arguments: str, folder: Path) -> Done:
    """Runs `omniflow ARGUMENTS` in that folder."""
    environment = {name: value for name, value in os.environ.items() if name not in ("OMNIFLOW_ADDRESS", "COLUMNS")}
    return await command(sys.executable, "-m", "omniflow.cli.main", *arguments, env=environment, folder=folder)


async def command(*words: str, env: Mapping[str, str], folder: Path | None = None) -> Done:
    """Runs any command to its end."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    return Done(process.returncode or 0, stdout.decode(), stderr.decode())
