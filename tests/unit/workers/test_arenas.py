"""Tensors and arrays over arenas: in place, of any type, and kept by what is made of them."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from omniflow_core import ArenaChannel, ArenaLayout, BlobArena, HostArena, InvalidArgument, OutOfBounds
from omniflow_workers.arenas import (
    Arena,
    DeviceUnavailableError,
    array_over,
    create_arena,
    open_arena,
    pool_tensor,
    tensor_over,
)

PATIENCE = 30.0


def layout(content: str = "pages", *, page_bytes: int = 4096, pages: int = 8, device: str = "cpu") -> ArenaLayout:
    return ArenaLayout(content, page_bytes=page_bytes, pages=pages, fingerprint=bytes(32), device=device)


def passed_on(arena: Arena, wanted: ArenaLayout | None = None) -> Arena:
    ours, theirs = ArenaChannel.pair()
    ours.offer([arena.offered("kv")], patience=PATIENCE)
    (offered,) = theirs.take(patience=PATIENCE)
    return open_arena(offered, wanted)


def test_both_sides_compute_on_one_memory() -> None:
    ours = create_arena(layout())
    theirs = passed_on(ours, layout())
    page_shape = (2, 16, 64)  # K and V, 16 tokens, 64 numbers of bfloat16 each
    written, read = (pool_tensor(side, torch.bfloat16, page_shape) for side in (ours, theirs))
    assert written.shape == (8, *page_shape)
    written[3] = 1.5
    ours.settle()
    assert bool((read[3] == 1.5).all())
    assert read.data_ptr() != written.data_ptr()
    read[3, 0] += 1
    assert float(written[3, 0].sum()) == 2.5 * 16 * 64


def test_a_tensor_keeps_the_memory_and_nothing_else_does() -> None:
    arena = create_arena(layout("blobs"))
    name = "omniflow-blobs"

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(name)

    before = mappings()
    tensor = arena.tensor(torch.int64, (4, 8), offset=4096)
    del arena
    gc.collect()
    tensor.fill_(3)
    assert mappings() == before
    assert int(tensor.sum()) == 96
    del tensor
    gc.collect()
    assert mappings() == before - 1


def test_a_blob_is_free_when_its_last_tensor_is_gone() -> None:
    blobs = BlobArena(HostArena.create(layout("blobs")))
    tensor = tensor_over(blobs.allocate(6 * 4), torch.float32, (2, 3))
    row = tensor[1]
    del tensor
    gc.collect()
    assert blobs.allocator.free_pages == 7
    row.zero_()
    del row
    gc.collect()
    assert blobs.allocator.free_pages == 8


def test_tensors_of_every_kind_lie_in_place() -> None:
    blobs = BlobArena(HostArena.create(layout("blobs", pages=64)))
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        blob = blobs.allocate(5 * dtype.itemsize)
        tensor = tensor_over(blob, dtype, (5, 1))
        tensor.fill_(1)
        again = tensor_over(blobs.arena.blob(blob.place), dtype, (5,))
        assert again.data_ptr() == tensor.data_ptr()
        assert bool((again == 1).all())
    assert tensor_over(blobs.allocate(0), torch.float32, (0, 7)).shape == (0, 7)


def test_an_array_is_read_only_unless_asked_otherwise() -> None:
    blobs = BlobArena(HostArena.create(layout("blobs")))
    blob = blobs.allocate(24)
    writable = array_over(blob, np.float64, (3,), writable=True)
    writable[:] = [1, 2, 3]
    array = array_over(blob, np.float64, (3, 1))
    assert array.tolist() == [[1], [2], [3]]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 4


def test_a_shape_that_does_not_fit_is_refused() -> None:
    arena = create_arena(layout())
    with pytest.raises(InvalidArgument, match="need 4098 bytes, there are 4096"):
        pool_tensor(arena, torch.bfloat16, (2049,))
    with pytest.raises(OutOfBounds):
        arena.tensor(torch.uint8, (4096,), offset=7 * 4096 + 1)
    with pytest.raises(InvalidArgument):
        tensor_over(bytearray(12), torch.float64, (2,))
    with pytest.raises(InvalidArgument):
        array_over(bytearray(12), np.float64, (1,))


def test_a_device_that_nobody_can_share_is_named() -> None:
    with pytest.raises(DeviceUnavailableError, match="tpu:0"):
        create_arena(layout(device="tpu:0"))
    with pytest.raises(DeviceUnavailableError, match="cuda:0"):
        create_arena(layout(device="cuda:x"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_cuda_arena_without_a_device_says_what_is_missing() -> None:
    with pytest.raises(DeviceUnavailableError, match="no cuda:0 here"):
        create_arena(layout(device="cuda:0"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_both_sides_compute_on_one_memory_of_a_cuda_device() -> None:
    ours = create_arena(layout(device="cuda:0"))
    theirs = passed_on(ours)
    written, read = (pool_tensor(side, torch.float16, (2048,)) for side in (ours, theirs))
    written[3] = 1.5
    ours.settle()
    assert bool((read[3] == 1.5).all())


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, omniflow_workers.arenas; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_memory_of_a_cuda_device_is_asked_for_in_the_terms_of_the_driver() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    from omniflow_workers.arenas import cuda_memory

    asked = cuda_memory._properties(driver, 3)
    assert (int(asked.type), int(asked.location.type), asked.location.id) == (1, 1, 3)
    assert int(asked.requestedHandleTypes) == 1  # a file descriptor
    access = cuda_memory._access(driver, 3)
    assert (access.location.id, int(access.flags)) == (3, 3)  # to read and to write
