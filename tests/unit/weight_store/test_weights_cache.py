"""Weights are converted once, found again whole, rebuilt when damaged; what a killed conversion left goes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omniflow_workers.weights.cache import WeightsCache
from omniflow_workers.weights.errors import NoRoomForWeights
from omniflow_workers.weights.room import reserve

NAME, OTHER = "f" * 64, "e" * 64
POINTS = ("weights-half-written", "weights-written", "weights-unnamed")
KILLED = """
from pathlib import Path
from tests.unit.weight_store.test_weights_cache import NAME, {convert}
from omniflow_workers.weights.cache import WeightsCache
WeightsCache(Path({folder!r})).entry(NAME, {convert})
"""


def convert(folder: Path) -> None:
    """A conversion that leaves a mark outside, so that conversions can be counted."""
    with (folder.parent / "conversions").open("a") as log:
        log.write("x")
    (folder / "model.safetensors").write_bytes(os.urandom(100_000))
    (folder / "config.json").write_text("{}")


def convert_tensors(folder: Path) -> None:
    """One that writes weights as models' are written."""
    import torch

    from omniflow_workers.weights import format

    format.write(folder / "model.safetensors", {f"layer.{i}.weight": torch.full((64, 96), float(i)) for i in range(6)})


def enter(folder: Path) -> None:
    WeightsCache(folder).entry(NAME, convert)


def conversions(folder: Path) -> int:
    return len((folder / "conversions").read_text())


def die_at(point: str, folder: Path) -> None:
    """Converts in a process that dies at `point`, as by `kill -9`."""
    points = folder.parent / "points"
    points.mkdir(exist_ok=True)
    (points / point).touch()
    environment = {**os.environ, "OMNIFLOW_STOP_AT": str(points)}
    how = "convert_tensors" if point == "weights-half-written" else "convert"
    command = [sys.executable, "-c", KILLED.format(folder=str(folder), convert=how)]
    assert subprocess.run(command, env=environment, check=False, timeout=100).returncode == -9


def parts(folder: Path) -> list[Path]:
    return list(folder.glob("*.part-*"))


def test_processes_that_ask_at_once_convert_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=enter, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert conversions(tmp_path) == 1


@pytest.mark.parametrize("harm", ["truncated", "one byte changed", "a file missing", "no manifest", "another's"])
def test_a_damaged_entry_is_rebuilt(harm: str, tmp_path: Path) -> None:
    cache = WeightsCache(tmp_path)
    weights = cache.entry(NAME, convert).file("model.safetensors")
    weights.chmod(0o600)
    match harm:
        case "truncated":
            os.truncate(weights, weights.stat().st_size - 1)
        case "one byte changed":
            content = bytearray(weights.read_bytes())
            content[-5000] ^= 1
            weights.write_bytes(content)
        case "a file missing":
            (weights.parent / "config.json").unlink()
        case "no manifest":
            (weights.parent / "manifest.json").unlink()
        case _:
            manifest = weights.parent / "manifest.json"
            text = manifest.read_text()
            manifest.unlink()
            manifest.write_text(text.replace(NAME, OTHER))
    again = cache.entry(NAME, convert)
    assert again.converted
    assert cache.intact(again.folder)
    assert not cache.entry(NAME, convert).converted


@pytest.mark.parametrize("point", POINTS)
def test_a_conversion_killed_at_any_point_leaves_nothing_that_counts(point: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    die_at(point, folder)
    assert parts(folder)
    assert not (folder / NAME).exists()
    assert WeightsCache(folder).entry(NAME, convert).converted
    assert not parts(folder)


def test_what_a_killed_conversion_left_goes_with_the_next_one_of_another_model(tmp_path: Path) -> None:
    die_at("weights-written", tmp_path / "cache")
    assert WeightsCache(tmp_path / "cache").entry(OTHER, convert).converted
    assert not parts(tmp_path / "cache")


def test_what_a_living_process_converts_is_left_alone(tmp_path: Path) -> None:
    cache = WeightsCache(tmp_path)

    def convert_during_another(folder: Path) -> None:
        assert cache.entry(OTHER, convert).converted
        convert(folder)

    entry = cache.entry(NAME, convert_during_another)
    assert cache.intact(entry.folder)


def test_a_cache_that_is_cleared_while_a_model_is_converted_is_no_harm_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "cache"

    def clear(_part: Path) -> None:
        shutil.rmtree(folder)
        WeightsCache(folder).entry(NAME, convert)  # its lock is another file by now: it waits for nobody

    with pytest.raises(FileNotFoundError):
        WeightsCache(folder).entry(NAME, clear)
    assert not WeightsCache(folder).entry(NAME, convert).converted


def test_a_full_disk_is_said_with_what_is_needed_and_where(tmp_path: Path) -> None:
    needed = shutil.disk_usage(tmp_path).total + (1 << 40)

    def large(folder: Path) -> None:
        with (folder / "model.safetensors").open("wb") as file:
            reserve(file, folder / "model.safetensors", needed)

    with pytest.raises(NoRoomForWeights) as caught:
        WeightsCache(tmp_path).entry(NAME, large)
    error = caught.value
    assert error.needed == needed > error.free
    assert f"{needed / (1 << 20):,.1f} MiB" in error.message
    assert str(tmp_path) in error.message
    assert "`cache:` in the cluster file" in error.cure
    assert not parts(tmp_path)


def test_a_disk_that_is_full_in_the_end_is_said_too(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(NoRoomForWeights) as caught:
        WeightsCache(tmp_path).entry(NAME, full)
    assert caught.value.needed > caught.value.free
    assert not parts(tmp_path)


def test_an_error_of_the_source_stays_what_it_is(tmp_path: Path) -> None:
    def broken(_folder: Path) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "tokenizer.json")

    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        WeightsCache(tmp_path).entry(NAME, broken)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_said_with_the_cure(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="`cache:` in the cluster file"):
        WeightsCache(tmp_path / "cache").entry(NAME, convert)
