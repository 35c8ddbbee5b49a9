"""One copy on a device for all its processes: the first loads, the others open it, and a dead owner is replaced.

The device here is anonymous host memory; CUDA memory differs in how a piece is made and opened (`sharing/cuda.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import pytest
import torch
from safetensors.torch import save_file

from omniflow_workers.weights.sharing import wire
from omniflow_workers.weights.sharing.home import SharedHome
from omniflow_workers.weights.store import WeightsStore
from tests.unit.weight_store.memfd_memory import MemfdMemory, hold

NAME = "d" * 64
SUM = 64 * 63 / 2
PROCESSES = multiprocessing.get_context("forkserver")
# Torch is imported once, not by every process.
PROCESSES.set_forkserver_preload(["tests.unit.weight_store.memfd_memory"])


class Other:
    """Another process on the same device."""

    def __init__(self, device: str, path: Path, *, slow: bool = False) -> None:
        self._channel, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=hold, args=(theirs, device, NAME, path, slow))
        self._process.start()
        theirs.close()

    def says(self) -> str:
        assert self._channel.poll(60)
        return str(self._channel.recv())

    def leave(self) -> None:
        self._channel.send("leave")
        self._process.join(60)
        assert self._process.exitcode == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.join(60)

    def __enter__(self) -> Other:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self._process.close()
        self._channel.close()


@pytest.fixture
def device() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.arange(64.0)}, path)
    return path


@contextmanager
def someone_at(address: str, message: bytes) -> Iterator[None]:
    """Binds `address` and says `message` to whoever asks."""
    listener = wire.bind(address)
    assert listener is not None

    def answer() -> None:
        asker, _ = listener.accept()
        asker.sendall(message)
        asker.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listener.close()


def until_handed_out(device: str) -> None:
    """Whoever has the memory may take a moment to take a dead one's place; nobody tells of it."""
    while (asker := wire.connect(wire.address_of(device, NAME))) is None:
        threading.Event().wait(0.01)
    asker.close()


def test_a_second_process_opens_what_the_first_loaded(device: str, path: Path) -> None:
    memory = MemfdMemory()
    store = WeightsStore(SharedHome(memory, device))
    with store.hold(NAME, path), Other(device, path) as other:
        assert other.says() == f"opened {SUM}"
        other.leave()
    assert memory.filled == 1


def test_this_process_opens_what_another_loaded(device: str, path: Path) -> None:
    memory = MemfdMemory()
    with Other(device, path) as other:
        assert other.says() == f"filled {SUM}"
        with WeightsStore(SharedHome(memory, device)).hold(NAME, path) as held:
            assert held.tensors["w"].sum() == SUM
        other.leave()
    assert (memory.filled, memory.opened) == (0, 1)


def test_when_the_owner_is_killed_one_who_has_its_memory_hands_it_out(device: str, path: Path) -> None:
    memory = MemfdMemory()
    store = WeightsStore(SharedHome(memory, device))
    with Other(device, path) as owner:
        assert owner.says() == f"filled {SUM}"
        with store.hold(NAME, path) as held:
            owner.kill()
            assert held.tensors["w"].sum() == SUM
            until_handed_out(device)
            with Other(device, path) as next_one:
                assert next_one.says() == f"opened {SUM}"
                next_one.leave()
    assert (memory.filled, memory.opened) == (0, 1)


def test_of_several_who_have_it_one_takes_the_owners_place_and_the_others_hold_on(device: str, path: Path) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(Other(device, path)) for _ in range(3)]
        assert sorted(other.says() for other in others) == [f"filled {SUM}", f"opened {SUM}", f"opened {SUM}"]
        for left in others[:2]:  # whoever hands out by now
            until_handed_out(device)
            left.kill()
        until_handed_out(device)
        memory = MemfdMemory()
        with WeightsStore(SharedHome(memory, device)).hold(NAME, path):
            assert (memory.filled, memory.opened) == (0, 1)


def test_when_nobody_has_it_any_more_the_next_process_loads_again(device: str, path: Path) -> None:
    with Other(device, path) as owner:
        assert owner.says() == f"filled {SUM}"
        owner.kill()
    memory = MemfdMemory()
    with WeightsStore(SharedHome(memory, device)).hold(NAME, path):
        assert (memory.filled, memory.opened) == (1, 0)


def test_who_loaded_it_may_let_go_while_others_use_it(device: str, path: Path) -> None:
    memory = MemfdMemory()
    store = WeightsStore(SharedHome(memory, device))
    first = store.hold(NAME, path)
    with Other(device, path) as other:
        assert other.says() == f"opened {SUM}"
        first.release()
        until_handed_out(device)
        with store.hold(NAME, path) as again:
            assert again.tensors["w"].sum() == SUM
        assert (memory.filled, memory.opened) == (1, 1)
        other.leave()


def test_an_owner_killed_while_it_loads_is_followed_by_one_that_waits(device: str, path: Path) -> None:
    with Other(device, path, slow=True) as owner:
        assert owner.says() == "filling"
        with Other(device, path) as waiting:
            owner.kill()
            assert waiting.says() == f"filled {SUM}"


def test_weights_that_cannot_be_loaded_leave_the_next_one_to_try(
    device: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MemfdMemory()
    store = WeightsStore(SharedHome(memory, device))

    def full(_source: torch.Tensor) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(memory, "fill", full)
        with pytest.raises(MemoryError):
            store.hold(NAME, path)
    with store.hold(NAME, path) as held:
        assert held.tensors["w"].sum() == SUM


@pytest.mark.parametrize("message", [b"hello", bytes(8)], ids=["too short", "another size, no descriptor"])
def test_an_owner_that_says_nonsense_is_not_believed(message: bytes, device: str, path: Path) -> None:
    memory = MemfdMemory()
    with someone_at(wire.address_of(device, NAME), message):
        held = WeightsStore(SharedHome(memory, device)).hold(NAME, path)
        assert held.tensors["w"].sum() == SUM
        assert memory.filled == 1
        held.release()


def test_descriptors_do_not_pile_up(device: str, path: Path) -> None:
    with Other(device, path) as owner:
        assert owner.says() == f"filled {SUM}"
        store = WeightsStore(SharedHome(MemfdMemory(), device))
        store.hold(NAME, path).release()
        threads = threading.active_count()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            store.hold(NAME, path).release()
        for thread in threading.enumerate():
            if thread.name == "weights-shared":
                thread.join(60)
        assert len(os.listdir("/proc/self/fd")) <= before
        assert threading.active_count() <= threads
