"""A process that writes pages to disk is killed, or the disk is full: what was there is there, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omniflow_core import ArenaLayout, DiskArena

PAGE = 1 << 16
PAGES = 8
LAYOUT = ArenaLayout("pages", page_bytes=PAGE, pages=PAGES, fingerprint=bytes(32))
COMMON = f"""
import itertools, resource, sys
from omniflow_core import ArenaLayout, DiskArena, DiskFull, DiskPageMissing
PAGE, PAGES = {PAGE}, {PAGES}
arena = DiskArena(sys.argv[1], ArenaLayout("pages", page_bytes=PAGE, pages=PAGES, fingerprint=bytes(32)))
def key(number): return number.to_bytes(32, "little")
def content(number): return bytes([number % 251]) * PAGE
"""
WRITES_FOR_EVER = """
for number in itertools.count():
    arena.write(number % PAGES, key(number), content(number))
    print(number, flush=True)
"""
FILLS_THE_DISK = """
arena.write(0, key(0), content(0))
arena.write(7, key(7), content(7))
limit = arena.info.file_bytes - 2 * PAGE
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # writes behind it fail, as on a full disk
try:
    arena.write(7, key(8), content(8))
except DiskFull as error:
    print(type(error).__name__)
into = bytearray(PAGE)
arena.read_into(0, key(0), into)
assert into == content(0)
for lost in (7, 8):
    try:
        arena.read_into(7, key(lost), into)
    except DiskPageMissing:
        print("missing")
arena.write(1, key(1), content(1))
"""


def content(number: int) -> bytes:
    return bytes([number % 251]) * PAGE


@pytest.mark.timeout(400)
def test_pages_on_disk_are_whole_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "pages"
    command = [sys.executable, "-c", COMMON + WRITES_FOR_EVER, str(path)]
    for round_ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            written = [int(writer.stdout.readline()) for _ in range(3 * PAGES + round_)]
            writer.kill()
            written += [int(line) for line in writer.stdout if line.endswith("\n")]
        arena = DiskArena(path, LAYOUT)
        assert arena.dropped == []
        _, held = arena.allocator()
        found = {}
        for key, run in held:
            (page,) = memoryview(run).tolist()
            number = int.from_bytes(key, "little")
            into = bytearray(PAGE)
            arena.read_into(page, key, into)
            assert into == content(number)
            found[page] = number
        # One write more may be done, or under way, than was said.
        next_ = written[-1] + 1
        under_way = found.pop(next_ % PAGES, None)
        assert found == {number % PAGES: number for number in range(next_ - PAGES + 1, next_)}
        assert under_way in (None, next_, next_ - PAGES)
        del arena, held, run
    assert [file.name for file in tmp_path.iterdir()] == ["pages"]


@pytest.mark.timeout(400)
def test_a_full_disk_is_a_typed_error_and_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "pages"
    command = [sys.executable, "-c", COMMON + FILLS_THE_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["DiskFull", "missing", "missing"]
    arena = DiskArena(path, LAYOUT)
    into = bytearray(PAGE)
    arena.read_into(1, (1).to_bytes(32, "little"), into)
    assert into == content(1)
    assert (arena.info.filled, arena.dropped) == (2, [])
