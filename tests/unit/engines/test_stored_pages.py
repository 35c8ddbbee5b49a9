"""Pages in a file: what was written is what is read, or nothing is; who is used stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from omniflow_core import ArenaLayout, DiskArena, KeyChain, PageAllocator, PageKeys
from omniflow_workers.engines.stored import Rows, StoredPages

PAGE_BYTES, PAGE_TOKENS = 4096, 4


def prompt(first: int, pages: int) -> PageKeys:
    """Keys of a prompt that no other `first` begins like."""
    chain = KeyChain("model", "layout", PAGE_TOKENS)
    chain.extend(np.arange(first * 1000, first * 1000 + pages * PAGE_TOKENS))
    return chain.keys


def bytes_of(keys: PageKeys) -> Rows:
    """What the pages hold: something that follows from their keys."""
    seeds = np.frombuffer(bytes(keys), np.uint8).reshape(-1, 32)
    return np.ascontiguousarray(np.tile(seeds, PAGE_BYTES // 32))


class World:
    """A file, and what is asked of it."""

    def __init__(self, path: Path, pages: int = 8) -> None:
        self.path = path
        self.layout = ArenaLayout("pages", page_bytes=PAGE_BYTES, pages=pages, fingerprint=bytes(32))
        self.stored = self.open()

    def open(self) -> StoredPages:
        return StoredPages(DiskArena(self.path, self.layout), PageAllocator(4))

    def reopen(self) -> None:
        self.stored.close()
        self.stored = self.open()

    def store(self, keys: PageKeys, most: int = 3) -> list[tuple[int, int]]:
        """Which pages were asked for."""
        asked: list[tuple[int, int]] = []

        def content(start: int, stop: int) -> Rows:
            asked.append((start, stop))
            return bytes_of(keys[start:stop])

        self.stored.store(keys, most, content)
        self.stored.check()
        return asked

    def read(self, keys: PageKeys, start: int = 0) -> int:
        """How many pages came; each as it was written."""
        into = np.zeros((len(keys) - start, PAGE_BYTES), np.uint8)
        read = self.stored.read(keys, start, into)
        assert (into[:read] == bytes_of(keys[start : start + read])).all()
        self.stored.check()
        return read

    def damage(self, keys: PageKeys, page: int) -> None:
        """One bit of a page's bytes, wherever it lies in the file."""
        content = bytearray(self.path.read_bytes())
        at = content.index(bytes_of(keys[page : page + 1]).tobytes())
        content[at + 100] ^= 1
        self.path.write_bytes(content)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "pages")
    yield made
    made.stored.close()


def test_pages_are_written_once_and_come_back_also_after_a_restart(world: World) -> None:
    keys = prompt(1, 5)
    assert world.store(keys) == [(0, 3), (3, 5)]
    assert world.store(keys) == []
    assert (world.stored.follow(keys, 0), world.stored.follow(keys, 4)) == (5, 1)
    assert world.read(keys) == 5
    world.reopen()
    assert len(world.stored) == 5
    assert world.store(prompt(1, 7)) == [(5, 7)]
    assert world.read(prompt(1, 7), start=2) == 5
    counts = world.stored.counts
    assert (counts.read, counts.written, counts.skipped, counts.damaged) == (5, 2, 0, 0)


def test_for_room_the_prompt_goes_that_was_not_used_for_longest_from_its_end(world: World) -> None:
    first, second, third = (prompt(n, 3) for n in range(3))
    world.store(first)
    world.store(second)
    world.stored.used(first)
    world.store(third)
    assert [world.stored.follow(keys, 0) for keys in (first, second, third)] == [3, 2, 3]
    world.store(prompt(3, 2))
    assert [world.stored.follow(keys, 0) for keys in (first, second, third)] == [3, 0, 3]


@pytest.mark.parametrize("reopened", [False, True])
def test_reading_a_prompt_counts_as_a_use_of_it(world: World, reopened: bool) -> None:
    """Also when who comes behind whom is not known any more."""
    first, second = prompt(1, 4), prompt(2, 4)
    world.store(first)
    world.store(second)
    if reopened:
        world.reopen()
    assert world.read(first) == 4
    world.store(prompt(3, 2))
    assert (world.stored.follow(first, 0), world.stored.follow(second, 0)) == (4, 2)


def test_a_prompt_that_is_longer_than_the_file_keeps_its_beginning_there(world: World) -> None:
    world.store(prompt(1, 3))
    long = prompt(2, 11)
    world.store(long)
    assert world.stored.follow(long, 0) == 8
    assert world.stored.counts.skipped == 3
    assert world.store(long) == []
    assert world.stored.follow(long, 0) == 8


@pytest.mark.parametrize("page", [0, 2, 4])
def test_a_damaged_page_ends_what_is_read_and_is_written_anew_when_it_was_computed(world: World, page: int) -> None:
    keys = prompt(1, 5)
    world.store(keys)
    world.damage(keys, page)
    assert world.read(keys) == page
    assert world.stored.counts.damaged == 1
    assert world.stored.follow(keys, 0) == page
    assert world.store(keys) == [(page, page + 1)]
    assert world.read(keys) == 5


def test_a_damaged_page_is_forgotten_also_by_the_next_process(world: World) -> None:
    keys = prompt(1, 5)
    world.store(keys)
    world.damage(keys, 1)
    world.read(keys)
    world.reopen()
    assert world.stored.follow(keys, 0) == 1
    assert world.stored.follow(keys, 2) == 3


def test_of_a_page_that_lies_there_twice_one_is_kept(world: World) -> None:
    """It had left its slot for another page, whose writing failed, and was written again elsewhere."""
    keys = prompt(1, 3)
    world.store(keys)
    world.stored.close()
    arena = DiskArena(world.path, world.layout)
    arena.write(6, bytes(keys[1:2]), bytes_of(keys[1:2])[0])
    del arena
    for _ in range(2):
        world.stored = world.open()
        assert len(world.stored) == 3
        assert world.read(keys) == 3
        world.stored.close()
    world.stored = world.open()


def test_a_disk_that_fails_costs_pages_and_nothing_else(world: World) -> None:
    keys = prompt(1, 3)
    world.store(keys)
    whole = world.path.read_bytes()
    with world.path.open("r+b") as file:
        file.truncate(8192)
    assert world.read(keys) == 0
    world.path.write_bytes(whole)
    world.store(keys)
    assert world.read(keys) == 3
