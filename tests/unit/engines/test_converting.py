"""Weights are converted in a process of its own, which says what went wrong and ends with the one that asked."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from omniflow.errors import InternalError, InvalidArgument
from omniflow_workers.engines.torch import converting
from omniflow_workers.weights.cache import WeightsCache
from omniflow_workers.weights.errors import NoRoomForWeights
from omniflow_workers.weights.source import WeightsSource

NAME = "c" * 64
ASKS = """
from pathlib import Path
from omniflow_workers.engines.torch.converting import in_child
from omniflow_workers.weights.cache import WeightsCache
from omniflow_workers.weights.source import WeightsSource
source = WeightsSource("model", Path({source!r}))
WeightsCache(Path({cache!r})).entry({name!r}, in_child(source))
"""


def crossed(error: Exception) -> Exception:
    """`error` as the other process sees it."""
    return converting._raised(json.loads(json.dumps(converting._told(error))))


def test_a_typed_error_stays_one() -> None:
    found = crossed(InvalidArgument("no such model", field="model", cure="name another"))
    assert isinstance(found, InvalidArgument)
    assert (found.message, found.field, found.cure) == ("no such model", "model", "name another")


def test_a_full_disk_keeps_its_figures() -> None:
    found = crossed(NoRoomForWeights(Path("/cache"), 5 << 20, 1 << 20))
    assert "need 5.0 MiB in /cache, which has 1.0 MiB free" in str(found)


def test_errors_of_the_system_and_missing_packages_stay_what_they_are() -> None:
    found = crossed(OSError(errno.ENOSPC, "No space left on device", "/cache/part"))
    assert isinstance(found, OSError)
    assert (found.errno, found.filename) == (errno.ENOSPC, "/cache/part")
    assert isinstance(crossed(ModuleNotFoundError("No module named 'gguf'")), ImportError)


def test_what_nobody_foresaw_names_its_place() -> None:
    found = crossed(KeyError("model.norm.weight"))
    assert isinstance(found, InternalError)
    assert "KeyError" in found.message


def test_what_the_child_raises_is_raised_here_and_nothing_is_left(tmp_path: Path) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"no weights")
    with pytest.raises(InvalidArgument, match=r"broken\.gguf is no GGUF file"):
        WeightsCache(tmp_path / "cache").entry(NAME, converting.in_child(WeightsSource("broken", source)))
    assert not list((tmp_path / "cache").glob("*.part-*"))


def test_a_conversion_ends_with_the_worker_that_asked_for_it(tmp_path: Path) -> None:
    source, cache = tmp_path / "model.gguf", tmp_path / "cache"
    source.write_bytes(b"GGUF")
    program = ASKS.format(source=str(source), cache=str(cache), name=NAME)
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as asks:
        parent = psutil.Process(asks.pid)
        while not (children := parent.children()):
            assert asks.poll() is None
        asks.kill()
    _gone, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    # What it left is no model, and goes with the next conversion.
    assert WeightsCache(cache).entry(NAME, lambda folder: (folder / "config.json").touch()).converted
    assert not list(cache.glob("*.part-*"))
