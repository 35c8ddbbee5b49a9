"""The example flows' clusters, each started by the command line in a folder of its own, on a free port."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from omniflow.launch import LocalLauncher, Silent
from omniflow.launch.identity import marked_with
from omniflow_workers.stop_at import VARIABLE as STOP_VARIABLE
from tests.cluster_fixtures.command import omniflow
from tests.cluster_fixtures.ports import free_port
from tests.cluster_fixtures.visitors import client, stage

__all__ = ["client", "stage"]

EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class Example:
    """One that runs. `address`: its scheduler's."""

    folder: Path
    address: str


@contextmanager
def example(name: str, folder: Path, **replaced: str) -> Iterator[Example]:
    """`examples/NAME` in `folder`, up. Down at the end, and nothing is left.

    `replaced`: names of workers, and what more their entries in the cluster file shall say.
    """
    shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True)
    file, address = folder / "cluster.yaml", f"127.0.0.1:{free_port('127.0.0.1')}"
    text = file.read_text()
    assert "127.0.0.1:7070" in text
    for worker, more in replaced.items():
        assert f"  - name: {worker}\n" in text
        text = text.replace(f"  - name: {worker}\n", f"  - name: {worker}\n    {more}\n")
    file.write_text(text.replace("127.0.0.1:7070", address))
    done = asyncio.run(omniflow("up", "cluster.yaml", "--detach", folder=folder))
    assert done.status == 0, done.output
    try:
        yield Example(folder, address)
    finally:
        LocalLauncher().stop(folder / ".omniflow", timeout_s=10, force=True, observer=Silent())
    assert list(marked_with(folder / ".omniflow")) == []


@pytest.fixture(scope="module")
def omni(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with example("omni", tmp_path_factory.mktemp("omni")) as running:
        yield running


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with example("agent", tmp_path_factory.mktemp("agent")) as running:
        yield running


@pytest.fixture(scope="module")
def painting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with example("painting", tmp_path_factory.mktemp("painting")) as running:
        yield running


@pytest.fixture(scope="module")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with example("pdf", tmp_path_factory.mktemp("pdf")) as running:
        yield running


@pytest.fixture(scope="module")
def shared_prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with example("shared_prefix", tmp_path_factory.mktemp("shared_prefix")) as running:
        yield running


@pytest.fixture(scope="module")
def prefill_decode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    folder = tmp_path_factory.mktemp("prefill_decode")
    with example("prefill_decode", folder, prefill=f"env: {{{STOP_VARIABLE}: {folder}}}") as running:
        yield running
