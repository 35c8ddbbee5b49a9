"""Two processes that compute with the same weights on one host need the memory of one model, not of two."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from omniflow_workers.weights.cache import WeightsCache
from omniflow_workers.weights.convert import WEIGHTS
from tests.integration.weights.holder import FINGERPRINT, write_model


class Holder:
    """A process of `holder.py`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def says(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    @property
    def share(self) -> int:
        """Its proportional set size, in bytes: what it has alone, and its part of what it shares."""
        return _bytes(Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines(), "Pss:")

    def of_file(self, path: Path, kind: str) -> int:
        """What `kind` says of its mappings of `path`, in bytes."""
        lines = iter(Path(f"/proc/{self._process.pid}/smaps").read_text().splitlines())
        found: list[str] = []
        inside = False
        for line in lines:
            if not line.split()[0].endswith(":"):
                inside = line.endswith(str(path))
            elif inside:
                found.append(line)
        return _bytes(found, kind)


def _bytes(lines: list[str], kind: str) -> int:
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


@contextmanager
def holder(entry: Path) -> Iterator[Holder]:
    command = [sys.executable, "-m", "tests.integration.weights.holder", str(entry)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return WeightsCache(tmp_path_factory.mktemp("weights")).entry(FINGERPRINT, write_model).folder


def test_two_processes_with_one_model_need_the_memory_of_one(entry: Path) -> None:
    file = entry / WEIGHTS
    size = file.stat().st_size
    with ExitStack() as stack:
        both = [stack.enter_context(holder(entry)) for _ in range(2)]
        assert [each.says() for each in both] == ["ready", "ready"]
        before = sum(each.share for each in both)
        for each in both:
            each.tell("load")
        assert [each.says() for each in both] == ["done", "done"]

        for each in both:  # every weight was touched, and none is anybody's own
            assert each.of_file(file, "Rss:") > 0.95 * size
            assert each.of_file(file, "Private_Dirty:") == 0
            assert each.of_file(file, "Anonymous:") == 0
        assert sum(each.of_file(file, "Pss:") for each in both) < 1.1 * size
        together = sum(each.share for each in both) - before
        assert together < 1.5 * size, f"{together / size:.2f} models for two processes"

        for each in both:  # the measure would see copies
            each.tell("copy")
        assert [each.says() for each in both] == ["done", "done"]
        assert sum(each.share for each in both) - before > 2.5 * size
