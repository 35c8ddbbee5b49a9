"""Two real processes and one memory."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omniflow_core import ArenaChannel, ArenaLayout, BlobArena, HostArena

HERE = Path(__file__).parent
PATIENCE = 60.0


@contextmanager
def process(script: str, end: socket.socket) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(HERE / script), str(end.fileno())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, pass_fds=[end.fileno()], stdin=pipe, stdout=pipe, text=True) as started:
        end.close()
        try:
            yield started
        finally:
            started.kill()


def ends() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@pytest.mark.timeout(400)
def test_tensors_are_read_in_place_and_outlive_the_process_that_wrote_them() -> None:
    one, other = ends()
    with process("owner.py", one) as owner, process("reader.py", other) as reader:
        assert reader.stdout is not None
        assert reader.stdin is not None
        assert reader.stdout.readline() == "reading\n"
        maps = Path(f"/proc/{reader.pid}/maps").read_text()
        assert maps.count("/memfd:omniflow-pages") == 1
        owner.kill()
        owner.wait()
        reader.stdin.write("killed\n")
        reader.stdin.flush()
        report = json.loads(reader.stdout.readline())
        assert reader.wait(PATIENCE) == 0
    assert report == {"descriptors": 0, "mappings": 0, "hung_up": True}
    assert [path.name for path in Path("/dev/shm").glob("*omniflow*")] == []


@pytest.mark.timeout(400)
def test_what_a_killed_reader_had_leased_is_free_once_its_socket_hangs_up() -> None:
    layout = ArenaLayout("blobs", page_bytes=4096, pages=8, fingerprint=bytes(32))
    blobs = BlobArena(HostArena.create(layout))
    one, other = ends()
    channel = ArenaChannel.of(one.fileno())
    one.close()
    holds = "import sys; print('holding', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holds]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, pass_fds=[other.fileno()], stdin=pipe, stdout=pipe, text=True) as reader:
        other.close()
        assert reader.stdout is not None
        assert reader.stdout.readline() == "holding\n"
        channel.offer([("blobs", blobs.arena, None)], patience=PATIENCE)
        blob = blobs.allocate(3 * 4096)
        blob.lease(holder=reader.pid, until=2**62)
        blob.release()
        assert (blobs.allocator.free_pages, channel.hung_up) == (5, False)
        reader.kill()
        reader.wait()
    assert channel.hung_up
    assert blobs.allocator.drop_holder(reader.pid) == 1
    assert blobs.allocator.counters()["references"] == 0
