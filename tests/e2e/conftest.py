"""The trivial example, started by the command line in a folder of its own, on a free port."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from omniflow.launch import read_state
from omniflow.launch.identity import marked_with
from tests.cluster_fixtures.command import Done, omniflow
from tests.cluster_fixtures.ports import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Here:
    """A user's folder, in which a cluster runs."""

    folder: Path
    address: str

    async def omniflow(self, *arguments: str) -> Done:
        return await omniflow(*arguments, folder=self.folder)


def copy_example(name: str, folder: Path) -> str:
    """Into `folder`; returns the scheduler's address, which is that of a free port."""
    shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True)
    file, address = folder / "cluster.yaml", f"127.0.0.1:{free_port('127.0.0.1')}"
    text = file.read_text()
    assert "127.0.0.1:7070" in text
    file.write_text(text.replace("127.0.0.1:7070", address))
    return address


def up_and_down(folder: Path) -> Iterator[Here]:
    here = Here(folder, copy_example("trivial", folder))
    done = asyncio.run(here.omniflow("up", "cluster.yaml", "--detach"))
    assert done.status == 0, done.output
    assert here.address in done.stderr
    yield here
    done = asyncio.run(here.omniflow("down"))
    assert done.status == 0, done.output
    assert read_state(folder / ".omniflow") is None
    assert list(marked_with(folder / ".omniflow")) == []


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """One cluster for all tests that leave it as it is."""
    yield from up_and_down(tmp_path_factory.mktemp("here"))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Here]:
    """One for this test alone."""
    yield from up_and_down(tmp_path)
