"""Shared memory as Python sees it: buffers in place, and what keeps them."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from omniflow_core import (
    AddressInUse,
    ArenaChannel,
    ArenaDamaged,
    ArenaError,
    ArenaFull,
    ArenaLayout,
    ArenaListener,
    ArenaMismatch,
    ArenaReadOnly,
    BadMessage,
    BlobArena,
    BlobPlace,
    ChannelHungUp,
    ChannelTimeout,
    HostArena,
    InvalidArgument,
    OutOfBounds,
    OutOfMemory,
    PageError,
    StalePage,
    UnknownPage,
)

MODEL = bytes(range(32))
PATIENCE = 30.0


def layout(pages: int = 8, page_bytes: int = 4096, content: str = "pages") -> ArenaLayout:
    return ArenaLayout(content, page_bytes=page_bytes, pages=pages, fingerprint=MODEL)


def mapped(name: str) -> bool:
    return any(name in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_an_arena_is_a_writable_buffer_of_all_its_pages() -> None:
    arena = HostArena.create(layout(pages=3))
    view = memoryview(arena)
    assert (view.format, view.nbytes, view.readonly) == ("B", 3 * 4096, False)
    assert bytes(view) == bytes(3 * 4096)
    view[4096 : 4096 + 4] = b"page"
    assert bytes(arena.page(1))[:4] == b"page"
    assert bytes(arena.view(4097, 3)) == b"age"
    with pytest.raises(OutOfBounds):
        arena.view(4096, 3 * 4096)
    with pytest.raises(UnknownPage):
        arena.page(3)


def test_memory_stays_while_an_array_over_it_does_and_no_longer() -> None:
    arena = HostArena.create(layout(), name="kept-by-arrays")
    array = np.frombuffer(memoryview(arena.page(2)), np.uint8)
    del arena
    gc.collect()
    array[:3] = 7
    assert mapped("kept-by-arrays")
    del array
    gc.collect()
    assert not mapped("kept-by-arrays")


def test_another_mapping_is_the_same_memory_with_the_same_generations() -> None:
    ours = HostArena.create(layout())
    theirs = HostArena.open(ours.fileno(), layout(), writable=False)
    assert theirs.id == ours.id
    assert (ours.info.writable, theirs.info.writable) == (True, False)
    allocator = ours.allocator()
    allocator.adopt(1, 8)
    run = allocator.allocate(3)
    pages, generations = np.array(run, np.uint32), np.frombuffer(run.generations, np.uint64)
    memoryview(ours.page(int(pages[1])))[:] = bytes([5]) * 4096
    assert memoryview(theirs.page(int(pages[1]))).readonly
    assert bytes(theirs.page(int(pages[1]))) == bytes([5]) * 4096
    theirs.verify_all(pages, generations)
    run.release()
    with pytest.raises(StalePage):
        theirs.verify_all(pages, generations)
    with pytest.raises(StalePage):
        theirs.verify(int(pages[0]), int(generations[0]))
    assert theirs.generation(1) == ours.generation(1) == allocator.generation(1)
    with pytest.raises(ArenaReadOnly):
        theirs.allocator()
    allocator.retire(1, 8)
    assert allocator.free_pages == 0
    with pytest.raises(PageError):
        allocator.adopt(0, 4)
    allocator.check()


def test_what_is_not_as_told_is_not_mapped(tmp_path: Path) -> None:
    arena = HostArena.create(layout(), name="told-otherwise")
    other = ArenaLayout("pages", page_bytes=4096, pages=8, fingerprint=bytes(32))
    with pytest.raises(ArenaMismatch, match="fingerprint"):
        HostArena.open(arena.fileno(), other)
    with pytest.raises(ArenaDamaged):
        HostArena.open(arena.fileno(), layout(pages=4096))
    with (tmp_path / "file").open("wb+") as file:
        file.truncate(arena.info.mapped_bytes)
        with pytest.raises(ArenaDamaged, match="anonymous"):
            HostArena.open(file.fileno(), layout())
    for descriptor in (-1, 1_000_000):
        with pytest.raises(InvalidArgument):
            HostArena.open(descriptor, layout())


def test_a_layout_says_what_is_wrong_with_it() -> None:
    for wrong, says in (
        ({"content": "films"}, "pages or blobs"),
        ({"page_bytes": 100}, "multiple of 64"),
        ({"pages": 0}, "at least one"),
        ({"fingerprint": b"short"}, "pass 32"),
        ({"device": "two words"}, "name"),
    ):
        arguments = {"content": "pages", "page_bytes": 64, "pages": 1, "fingerprint": MODEL, **wrong}
        content = str(arguments.pop("content"))
        with pytest.raises(InvalidArgument, match=says):
            ArenaLayout(content, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ArenaMismatch, match="page count"):
        layout(pages=1).require(layout(pages=2))
    assert layout() == layout()
    assert len({layout(), layout(), layout(pages=1)}) == 2


def test_an_arena_for_which_no_memory_is_left_is_a_typed_error() -> None:
    with pytest.raises(OutOfMemory):
        HostArena.create(layout(pages=63, page_bytes=1 << 40), prefault=True)


def test_pages_of_another_device_have_no_buffer_here() -> None:
    there = ArenaLayout("pages", page_bytes=1 << 20, pages=64, fingerprint=MODEL, device="cuda:0")
    arena = HostArena.create(there)
    with pytest.raises(ArenaError, match="cuda:0"):
        memoryview(arena)


def test_a_blob_is_one_writable_piece_that_readers_find_by_its_place() -> None:
    blobs = BlobArena(HostArena.create(layout(pages=16, content="blobs")))
    reader = HostArena.open(blobs.arena.fileno(), blobs.arena.layout, writable=False)
    with blobs.allocate(10_000) as blob:
        np.frombuffer(memoryview(blob), np.uint8)[:] = 9
        place = blob.place
        assert (len(blob), place.bytes, place.offset % 4096) == (10_000, 10_000, 0)
        told = BlobPlace(offset=place.offset, bytes=place.bytes, page=place.page, generation=place.generation)
        assert told == place
        assert bytes(reader.blob(told)) == bytes([9]) * 10_000
        assert blobs.allocator.counters()["held"] == 3
    assert blob.released
    with pytest.raises(StalePage):
        reader.blob(place)
    assert blobs.allocator.counters()["references"] == 0


def test_a_blob_is_free_when_the_last_array_over_it_is_gone() -> None:
    blobs = BlobArena(HostArena.create(layout(pages=16, content="blobs")))
    array = np.frombuffer(memoryview(blobs.allocate(4096)), np.float32)
    assert blobs.allocator.free_pages == 15
    array[:] = 1
    del array
    gc.collect()
    assert blobs.allocator.free_pages == 16


def test_a_leased_blob_is_kept_for_its_reader() -> None:
    blobs = BlobArena(HostArena.create(layout(pages=16, content="blobs")))
    blob = blobs.allocate(8192)
    lease = blob.lease(holder=4, until=1_000)
    place = blob.place
    blob.release()
    assert blobs.allocator.free_pages == 14
    blobs.arena.blob(place)
    blobs.allocator.end_lease(lease)
    assert blobs.allocator.free_pages == 16


def test_an_arena_without_room_for_a_blob_says_what_is_free() -> None:
    blobs = BlobArena(HostArena.create(layout(pages=4, content="blobs")))
    held = [blobs.allocate(1) for _ in range(4)]
    held[1].release()
    held[3].release()
    with pytest.raises(ArenaFull) as full:
        blobs.allocate(8192)
    assert (full.value.wanted, full.value.free) == (8192, 8192)


def test_arenas_travel_over_a_channel_without_leaving_a_descriptor() -> None:
    gc.collect()  # what other tests have left is not counted as ours
    before = len(os.listdir("/proc/self/fd"))
    arena = HostArena.create(layout(), name="travels-in-python")
    ours, theirs = ArenaChannel.pair()
    ours.offer([("kv", arena, None)], patience=PATIENCE)
    (offered,) = theirs.take(patience=PATIENCE)
    assert (offered.name, offered.layout, offered.id) == ("kv", layout(), arena.id)
    opened, elsewhere = offered.open(layout(), writable=False)
    assert elsewhere is None
    memoryview(arena)[:4] = b"seen"
    assert bytes(opened.view(0, 4)) == b"seen"
    with pytest.raises(InvalidArgument, match="before"):
        offered.open()
    ours.offer([("kv", arena, None)], patience=PATIENCE)
    (unwanted,) = theirs.take(patience=PATIENCE)
    with pytest.raises(ArenaMismatch):
        unwanted.open(layout(pages=9))
    with pytest.raises(BadMessage):
        ours.offer([("kv", arena, None)] * 17, patience=PATIENCE)
    assert not theirs.hung_up
    with pytest.raises(ChannelTimeout):
        theirs.take(patience=0.0)
    del ours
    gc.collect()
    assert theirs.hung_up
    with pytest.raises(ChannelHungUp):
        theirs.take(patience=PATIENCE)
    del arena, opened, theirs, offered, unwanted
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert not mapped("travels-in-python")


def test_a_listener_needs_no_file() -> None:
    listener = ArenaListener(f"@omniflow-test-arenas-{os.getpid()}")
    with pytest.raises(AddressInUse):
        ArenaListener(listener.address)
    client = ArenaChannel.connect(listener.address)
    server = listener.accept(patience=PATIENCE)
    client.send(b"hello", [0], patience=PATIENCE)
    payload, descriptors = server.receive(patience=PATIENCE)
    assert (payload, len(descriptors)) == (b"hello", 1)
    os.close(descriptors[0])
    with pytest.raises(InvalidArgument, match="patience"):
        server.receive(patience=-1.0)
    with pytest.raises(InvalidArgument, match="address"):
        ArenaListener("")
