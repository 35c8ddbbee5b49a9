"""A safetensors file is read as its format says, refused when it is not whole, and mapped so that nobody copies it."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import signal
import struct
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from omniflow_workers.weights import format
from omniflow_workers.weights.errors import BadWeights
from omniflow_workers.weights.mapped import map_file

TENSORS = {
    "wide": torch.arange(12, dtype=torch.float32).view(3, 4),
    "half": torch.arange(6, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False, True]),
    "one": torch.tensor(7),
    "none": torch.empty(0, 5),
}


def mapped_here(path: Path) -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)


def test_what_the_safetensors_library_wrote_is_read(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "w.safetensors", metadata={"format": "pt"})
    mapped = map_file(tmp_path / "w.safetensors")
    assert_equal(mapped.tensors(), TENSORS)
    assert mapped.header.metadata == {"format": "pt"}


def test_what_we_write_the_safetensors_library_reads(tmp_path: Path) -> None:
    format.write(tmp_path / "w.safetensors", TENSORS)
    assert_equal(load_file(tmp_path / "w.safetensors"), TENSORS)
    with safe_open(tmp_path / "w.safetensors", framework="pt") as file:
        assert file.metadata()["format"] == "pt"


def test_the_models_own_tensors_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    tensors = {f"model.layers.0.self_attn.{name}.weight": torch.randn(4 + i, 6) for i, name in enumerate(names)}
    tensors["model.norm.weight"] = torch.randn(6)
    path = tmp_path / "w.safetensors"
    format.write(path, tensors)
    weights = format.read(path)
    assert_equal(dict(weights.named), tensors)
    joined = weights.stored["model.layers.0.self_attn.qkv_proj.weight.joined"]
    assert joined.shape == (4 + 5 + 6, 6)
    ranges = [line.split()[0].split("-") for line in mapped_here(path)]
    for tensor in [*weights.stored.values(), *weights.named.values()]:
        assert any(int(low, 16) <= tensor.data_ptr() < int(high, 16) for low, high in ranges)


def test_the_mapping_is_shared_and_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(TENSORS, path)
    before = path.read_bytes()
    mapped = map_file(path)
    assert mapped.data.nbytes == mapped.header.data_bytes
    assert [line.split()[1] for line in mapped_here(path)] == ["r--s"]
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # What it ends with is what is wanted here.
        ctypes.memset(mapped.data.data_ptr(), 1, 1)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    assert path.read_bytes() == before


def test_a_file_stays_mapped_as_long_as_a_tensor_lives_also_when_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(TENSORS, path)
    wide = map_file(path).tensors()["wide"]
    path.unlink()
    gc.collect()
    torch.testing.assert_close(wide, TENSORS["wide"], rtol=0, atol=0)
    assert mapped_here(path)
    del wide
    gc.collect()
    assert not mapped_here(path)


def _file(header: object, data: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def _entry(**other: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **other}


BROKEN = {
    "empty": b"",
    "shorter than a length": b"1234",
    "a header longer than the file": struct.pack("<Q", 1 << 40) + b"{}",
    "no JSON": _file(b"{"),
    "no text": _file(b"\xff\xfe"),
    "a list": _file([]),
    "an entry that is none": _file({"w": 3}),
    "no offsets": _file({"w": {"dtype": "F32", "shape": [2]}}, 8),
    "negative offsets": _file({"w": _entry(data_offsets=[-8, 0])}, 8),
    "offsets that are no numbers": _file({"w": _entry(data_offsets=["0", "8"])}, 8),
    "an unknown dtype": _file({"w": _entry(dtype="Q4")}, 8),
    "a shape of other size": _file({"w": _entry(shape=[3])}, 8),
    "a gap": _file({"w": _entry(data_offsets=[8, 16])}, 16),
    "an overlap": _file({"v": _entry(), "w": _entry(data_offsets=[4, 12])}, 12),
    "truncated data": _file({"w": _entry()}, 7),
    "more data than it speaks of": _file({"w": _entry()}, 9),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_whole_file_is_refused_with_its_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadWeights, match=r"w\.safetensors is no whole safetensors file") as caught:
        map_file(path)
    assert caught.value.cure
