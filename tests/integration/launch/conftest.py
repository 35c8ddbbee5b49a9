"""A cluster of tiny children under the real supervisor, each in a process of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from omniflow.launch.identity import marked_with
from tests.cluster_fixtures.ports import free_port

CLUSTER = Path(__file__).with_name("tiny_cluster.py")


@dataclass(frozen=True)
class Birth:
    """One life of a tiny child."""

    name: str
    pid: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def death(self) -> None:
        """Returns when it has ended, by whatever cause."""
        try:
            while await self.reader.read(1024):
                pass
        except ConnectionResetError:
            return

    async def order(self, text: str) -> None:
        self.writer.write(f"{text}\n".encode())
        await self.writer.drain()


@dataclass
class Supervisor:
    """The supervisor's process, and what it prints."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def until(self, text: str) -> str:
        """The line that holds `text`. Fails when the output ends before it comes."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode().rstrip():
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"'{text}' was never printed:\n" + "\n".join(self.lines))

    async def end(self) -> tuple[int, str]:
        """Its exit status and the whole of its output."""
        assert self.process.stdout is not None
        rest = (await self.process.stdout.read()).decode()
        return await self.process.wait(), "\n".join(self.lines) + rest

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass
class Tiny:
    """Starts tiny clusters on one run folder and hears of the births in them."""

    run: Path
    listen: str
    nursery: Path
    births: asyncio.Queue[Birth] = field(default_factory=asyncio.Queue)
    supervisors: list[Supervisor] = field(default_factory=list)

    async def up(self, **flags: str) -> Supervisor:
        command = [sys.executable, str(CLUSTER), str(self.run), str(self.nursery), self.listen]
        command += [f"{name}={flag}" for name, flag in flags.items()]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        supervisor = Supervisor(process)
        self.supervisors.append(supervisor)
        return supervisor

    async def born(self, count: int) -> dict[str, Birth]:
        births = [await self.births.get() for _ in range(count)]
        return {birth.name: birth for birth in births}

    def processes(self) -> list[int]:
        return [process.pid for process in marked_with(self.run)]


@pytest.fixture
async def tiny(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tiny]:
    nursery = Path(f"/tmp/omniflow-nursery-{os.getpid()}-{free_port('127.0.0.1')}")
    cluster = Tiny(tmp_path / "run", f"127.0.0.1:{free_port('127.0.0.1')}", nursery)

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, pid = (await reader.readline()).decode().split()
        await cluster.births.put(Birth(name, int(pid), reader, writer))

    server = await asyncio.start_unix_server(welcome, nursery)
    yield cluster
    for supervisor in cluster.supervisors:
        if supervisor.process.returncode is None:
            supervisor.send(signal.SIGKILL)
            await supervisor.process.wait()
    for stray in marked_with(cluster.run):
        stray.send(signal.SIGKILL)
    server.close()
    os.unlink(nursery)
