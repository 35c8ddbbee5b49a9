"""Pages of KV in a file, by their keys: which are there, which leave for room. Knows no engine and no tensor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omniflow_core import CoreError, DiskArena, DiskPageDamaged, PageAllocator, PageKeys, PageRun, PageTiers
from omniflow_workers.engines.sequence import page_ids

log = logging.getLogger(__name__)

Rows = NDArray[np.uint8]
"""Whole pages side by side, shape (pages, page_bytes)."""
Content = Callable[[int, int], Rows | None]
"""The bytes of pages `start` to `stop`, valid until it is called again; None: they cannot be had any more."""
_KEY_BYTES = 32
_WORTH = 1
"""Of each page: all are of one model and one size, so they take equally long to compute. Whose turn it is to leave is
decided by who comes behind whom, and by when each was used."""


@dataclass(slots=True)
class StoredCounts:
    """Pages since the start, but `hits`: prompts that pages were read for. `skipped`: not written, for want of room or
    of time; `damaged`: found not to be what was written."""

    hits: int = 0
    read: int = 0
    written: int = 0
    skipped: int = 0
    damaged: int = 0


@dataclass(slots=True)
class _Place:
    """Where the page of a key lies. Not `whole`: it was, and what the slot holds now is something else."""

    entry: int
    slot: int
    whole: bool = True


class StoredPages:
    """What a disk arena holds. Any thread reads; one thread at a time stores.

    Of `PageTiers` only the disk's part is used: what lies on the device is the prefix index's, which evicts pages that
    nobody else holds. Were they entries of the tiers as well, neither of the two could ever let go of one. So a page is
    an entry with a copy on disk from the start, and a hit reads it there (`hold`), into pages that the index takes in.
    """

    def __init__(self, arena: DiskArena, device: PageAllocator) -> None:
        self._arena = arena
        self._slots, held = arena.allocator()
        self._tiers = PageTiers(device, disk=self._slots)
        self._lock = threading.Lock()  # never held while the disk is waited for
        self._places: dict[bytes, _Place] = {}
        self._keys: dict[int, bytes] = {}
        self._counts = StoredCounts()
        self.page_bytes = arena.layout.page_bytes
        self.total = arena.layout.pages
        self.file_bytes = arena.info.file_bytes
        # Who came behind whom is not in the file. Slots are mostly filled in order: the last ones leave first.
        for key, run in reversed(held):
            with run:
                self._found(key, run)

    def __len__(self) -> int:
        """Pages that are there."""
        return len(self._places)

    @property
    def counts(self) -> StoredCounts:
        """As they are now."""
        with self._lock:
            counts = self._counts
            return StoredCounts(counts.hits, counts.read, counts.written, counts.skipped, counts.damaged)

    def count(self, *, hits: int = 0, skipped: int = 0) -> None:
        """So many more."""
        with self._lock:
            self._counts.hits += hits
            self._counts.skipped += skipped

    def follow(self, keys: PageKeys, start: int) -> int:
        """How many pages are here without a gap, from number `start` of the keys on."""
        with self._lock:
            return len(self._whole(_names(keys[start:])))

    def lacking(self, keys: PageKeys) -> list[bytes]:
        """The keys of pages that are not here."""
        with self._lock:
            return [name for name in _names(keys) if not self._whole([name])]

    def used(self, keys: PageKeys) -> None:
        """A prompt had these pages, wherever it found them: those that are here stay longer than what was used before,
        and the first of them longest."""
        self._hold(_names(keys)).release()

    def read(self, keys: PageKeys, start: int, into: Rows) -> int:
        """Reads pages from number `start` of the keys on. How many came: it ends at the first one that is not here, or
        not as it was written, which is forgotten. Rows from there on hold anything."""
        names = _names(keys[start : start + len(into)])
        with self._lock:
            places = self._whole(names)
            run = self._tiers.hold("disk", [place.entry for place in places])
        with run:
            read = 0
            for name, place, row in zip(names, places, into, strict=False):
                if not self._read(name, place, row):
                    break
                read += 1
        with self._lock:
            self._counts.read += read
        return read

    def store(self, keys: PageKeys, most: int, content: Content) -> None:
        """Writes those of the pages that are not here, up to `most` at a time.

        What has no room, or cannot be had, is skipped, and all behind it, which is worth nothing without it.
        """
        names = _names(keys)
        held = [self._hold(names)]  # room is made by others than these
        try:
            while lacking := self._lacking(names, most):
                start, stop = lacking
                fresh = self._make_room(names[start:stop])
                held += fresh
                if self._write(names, start, stop, fresh, content) < stop:
                    break
        finally:
            for run in held:
                run.release()
        self.used(keys)

    def close(self) -> None:
        """What was written is on the disk, and the file is somebody else's to open. Nobody reads or stores any more."""
        with self._lock:
            self._places.clear()
            self._keys.clear()
        try:
            self._arena.sync()
        except CoreError as error:  # what is lost by that is noticed when it is read
            log.warning("%s: %s", self._arena.path, error)
        del self._tiers, self._slots, self._arena

    def check(self) -> None:
        """Verifies what must hold when nobody reads or stores. Raises `AssertionError`, or `CorruptState`."""
        self._tiers.check()
        assert len(self._tiers) == len(self._places) == len(self._keys)
        assert all(self._keys[place.entry] == key for key, place in self._places.items())
        counters = self._slots.counters()
        assert counters["held"] == counters["references"] == len(self._places)

    def _found(self, key: bytes, run: PageRun) -> None:
        """A page from before. One that had left for room may have been written again: one of the two is enough."""
        if key in self._places:
            self._arena.forget(int(page_ids(run)[0]))
        else:
            self._take_in(key, run, None)

    def _take_in(self, key: bytes, run: PageRun, parent: int | None) -> None:
        size = self.page_bytes
        (entry,) = self._tiers.insert(run, 0, 1, recompute_us=_WORTH, bytes=size, chance=1.0, parent=parent)
        self._places[key] = _Place(entry, int(page_ids(run)[0]))
        self._keys[entry] = key

    def _whole(self, names: Iterable[bytes]) -> list[_Place]:
        """Of the first pages, up to one that is not here."""
        places = []
        for name in names:
            place = self._places.get(name)
            if place is None or not place.whole:
                break
            places.append(place)
        return places

    def _hold(self, names: Iterable[bytes]) -> PageRun:
        """Those that are here, with or without gaps, cannot leave meanwhile."""
        with self._lock:
            return self._tiers.hold("disk", [self._places[name].entry for name in names if name in self._places])

    def _read(self, name: bytes, place: _Place, row: Rows) -> bool:
        try:
            self._arena.read_into(place.slot, name, row)
        except CoreError as error:  # replaced, damaged, or the disk fails: the page is computed, and then written again
            log.warning("a stored page is computed again: %s", error)
            with self._lock:
                place.whole = False
                self._counts.damaged += isinstance(error, DiskPageDamaged)
            return False
        return True

    def _lacking(self, names: list[bytes], most: int) -> tuple[int, int] | None:
        """The first pages without a gap that are not here."""
        with self._lock:
            start = len(self._whole(names))
            stop = start
            while stop < min(len(names), start + most) and not self._whole([names[stop]]):
                stop += 1
        return (start, stop) if stop > start else None

    def _make_room(self, names: list[bytes]) -> list[PageRun]:
        """A slot for each page that has none, as far as there are any that nobody needs more."""
        with self._lock:
            needed = sum(name not in self._places for name in names)
            room = self._tiers.make_room("disk", needed)
            for entry in room.dropped:
                del self._places[self._keys.pop(entry)]
            return [self._slots.allocate(1) for _ in range(min(needed, room.free))]

    def _write(self, names: list[bytes], start: int, stop: int, fresh: list[PageRun], content: Content) -> int:
        """Up to which page they are here now."""
        rows = content(start, stop) if fresh or names[start] in self._places else None
        unused, done = iter(fresh), start
        for name, row in zip(names[start:stop], () if rows is None else rows, strict=False):
            parent = self._places[names[done - 1]].entry if done else None
            if not self._write_one(name, row, unused, parent):
                break
            done += 1
        with self._lock:
            self._counts.written += done - start
            self._counts.skipped += 0 if done == stop else len(names) - done
        return done

    def _write_one(self, name: bytes, row: Rows, unused: Iterator[PageRun], parent: int | None) -> bool:
        place = self._places.get(name)
        run = next(unused, None) if place is None else None
        if place is not None:
            slot = place.slot  # what it holds is not what was written
        elif run is not None:
            slot = int(page_ids(run)[0])
        else:
            return False
        try:
            self._arena.write(slot, name, row)
        except CoreError as error:
            log.warning("a page is not stored: %s", error)
            return False
        with self._lock:
            if place is not None:
                place.whole = True
            elif run is not None:
                self._take_in(name, run, parent)
        return True


def _names(keys: PageKeys) -> list[bytes]:
    """The keys one by one."""
    joined = bytes(keys)
    return [joined[at : at + _KEY_BYTES] for at in range(0, len(joined), _KEY_BYTES)]
