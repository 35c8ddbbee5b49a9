"""Where puppets report: the test awaits them, and gives them orders."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Act:
    """One activation that reports."""

    worker: str
    node: str
    job: str
    epoch: int
    tenant: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def go_on(self) -> None:
        """It waits no longer."""
        self.writer.write(b"\n")

    async def says(self) -> str:
        """Its next word; "" when it has ended, by whatever cause."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return (await self.reader.readline()).decode().rstrip()
        except ConnectionResetError:
            return ""


class Stage:
    """Hears of every activation of a puppet that reports."""

    def __init__(self) -> None:
        self._acts: asyncio.Queue[Act] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def act(self) -> Act:
        """The next one."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._acts.get()

    async def acts(self, count: int) -> list[Act]:
        return [await self.act() for _ in range(count)]

    @property
    def quiet(self) -> bool:
        """Whether nobody has reported that was not awaited."""
        return self._acts.empty()

    async def welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if line := await reader.readline():
            self._acts.put_nowait(Act(**json.loads(line), reader=reader, writer=writer))

    def close(self) -> None:
        """Whoever still waits for an order goes on."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def open_stage(path: Path) -> AsyncIterator[Stage]:
    stage = Stage()
    server = await asyncio.start_unix_server(stage.welcome, path)
    try:
        yield stage
    finally:
        server.close()
        stage.close()
        os.unlink(path)
