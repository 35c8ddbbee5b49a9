"""Two processes that compute with the same weights on one host need the memory of one model, not of two."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from omniflow.bench.memory import mapped_file, memory_of
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
    def pid(self) -> int:
        return self._process.pid


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

        def shares() -> int:
            return sum(memory_of(each.pid).share for each in both)

        assert [each.says() for each in both] == ["ready", "ready"]
        before = shares()
        for each in both:
            each.tell("load")
        assert [each.says() for each in both] == ["done", "done"]

        mapped = [mapped_file(each.pid, str(file)) for each in both]
        assert all(each.resident > 0.95 * size for each in mapped)  # every weight was touched,
        assert all(each.own == 0 for each in mapped)  # and none is anybody's own
        assert sum(each.share for each in mapped) < 1.1 * size
        together = shares() - before
        assert together < 1.5 * size, f"{together / size:.2f} models for two processes"

        for each in both:  # the measure would see copies
            each.tell("copy")
        assert [each.says() for each in both] == ["done", "done"]
        assert shares() - before > 2.5 * size
