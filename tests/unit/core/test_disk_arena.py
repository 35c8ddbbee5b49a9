"""Pages on disk as Python sees them."""

from __future__ import annotations

import gc
from array import array
from pathlib import Path

import numpy as np
import pytest

from omniflow_core import (
    ArenaDamaged,
    ArenaLayout,
    ArenaMismatch,
    DiskArena,
    DiskArenaInUse,
    DiskFull,
    DiskPageDamaged,
    DiskPageMissing,
    HostArena,
    InvalidArgument,
    UnknownPage,
)

PAGE = 4096
PAGES = 4


def layout(model: int = 1, page_bytes: int = PAGE, pages: int = PAGES) -> ArenaLayout:
    return ArenaLayout("pages", page_bytes=page_bytes, pages=pages, fingerprint=bytes([model]) * 32)


def key(number: int) -> bytes:
    return bytes([number]) * 32


def content(number: int) -> bytes:
    return bytes((index * number) % 256 for index in range(PAGE))


def filled(path: Path) -> None:
    arena = DiskArena(path, layout())
    for number in range(3):
        arena.write(number, key(number), content(number))


def test_pages_survive_and_are_held_when_the_file_is_opened_again(tmp_path: Path) -> None:
    filled(tmp_path / "pages")
    arena = DiskArena(tmp_path / "pages", layout())
    assert (arena.info.filled, arena.dropped, arena.path) == (3, [], tmp_path / "pages")
    allocator, held = arena.allocator()
    assert [(found, memoryview(run).tolist()) for found, run in held] == [(key(n), [n]) for n in range(3)]
    into = bytearray(PAGE)
    for number in range(3):
        arena.read_into(number, key(number), into)
        assert into == content(number)
    assert allocator.free_pages == 1
    held[1][1].release()
    with allocator.allocate(2) as run:
        assert sorted(memoryview(run).tolist()) == [1, 3]
    for _, run in held:
        run.release()
    assert allocator.free_pages == PAGES


def test_pages_of_shared_memory_go_to_disk_and_back_in_place(tmp_path: Path) -> None:
    memory = HostArena.create(layout())
    arena = DiskArena(tmp_path / "pages", layout())
    np.frombuffer(memoryview(memory.page(2)), np.uint8)[:] = 77
    arena.write(1, key(9), memory.page(2))
    arena.read_into(1, key(9), memory.page(3))
    assert bytes(memory.page(3)) == bytes([77]) * PAGE
    arena.sync()
    arena.forget(1)
    with pytest.raises(DiskPageMissing) as missing:
        arena.read_into(1, key(9), memory.page(3))
    assert missing.value.page == 1


def test_a_damaged_page_is_dropped_and_never_read_as_another(tmp_path: Path) -> None:
    filled(tmp_path / "pages")
    damaged = bytearray((tmp_path / "pages").read_bytes())
    damaged[len(damaged) - (PAGES - 1) * PAGE + 5] ^= 1
    (tmp_path / "pages").write_bytes(damaged)
    arena = DiskArena(tmp_path / "pages", layout())
    into = bytearray(PAGE)
    with pytest.raises(DiskPageDamaged) as error:
        arena.read_into(1, key(1), into)
    assert error.value.page == 1
    with pytest.raises(DiskPageMissing):
        arena.read_into(1, key(1), into)
    with pytest.raises(DiskPageMissing):
        arena.read_into(2, key(1), into)
    arena.read_into(2, key(2), into)
    assert into == content(2)


def test_a_file_of_another_model_or_cut_off_or_in_use_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "pages"
    first = DiskArena(path, layout())
    with pytest.raises(DiskArenaInUse):
        DiskArena(path, layout())
    del first
    gc.collect()
    with pytest.raises(ArenaMismatch, match="fingerprint"):
        DiskArena(path, layout(model=2))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - PAGE)
    with pytest.raises(ArenaDamaged, match="cut off"):
        DiskArena(path, layout())


def test_a_file_for_which_there_is_no_room_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(DiskFull):
        DiskArena(tmp_path / "pages", layout(page_bytes=1 << 40, pages=63))
    assert list(tmp_path.iterdir()) == []


def test_buffers_that_are_no_page_are_refused(tmp_path: Path) -> None:
    arena = DiskArena(tmp_path / "pages", layout())
    with pytest.raises(InvalidArgument, match="exactly one page"):
        arena.write(0, key(1), bytes(PAGE - 1))
    with pytest.raises(InvalidArgument, match="pass 32"):
        arena.write(0, b"key", bytes(PAGE))
    with pytest.raises(InvalidArgument, match="read-only"):
        arena.read_into(0, key(1), bytes(PAGE))
    with pytest.raises(InvalidArgument, match="one piece"):
        arena.write(0, key(1), np.zeros(2 * PAGE, np.uint8)[::2])
    with pytest.raises(InvalidArgument, match="bytes"):
        arena.write(0, key(1), array("f", bytes(PAGE)))
    with pytest.raises(UnknownPage):
        arena.write(PAGES, key(1), bytes(PAGE))
