"""A process holds a set of weights once, for all its roles, and frees it with the last of them."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from omniflow import Text
from omniflow.errors import InvalidArgument
from omniflow.roles import Role, RoleContext, add_facts, describe, method
from omniflow_workers.weights.errors import BadWeights
from omniflow_workers.weights.home import HostHome, Placed
from omniflow_workers.weights.mapped import MappedFile
from omniflow_workers.weights.store import WeightsStore, store_of

NAME = "a" * 64


class CountingHome(HostHome):
    """Counts what is brought to the device."""

    def __init__(self) -> None:
        self.placed = 0
        self._lock = threading.Lock()

    def place(self, fingerprint: str, file: MappedFile) -> Placed:
        with self._lock:
            self.placed += 1
        return super().place(fingerprint, file)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.arange(64.0)}, path)
    return path


@pytest.fixture
def home() -> CountingHome:
    return CountingHome()


@pytest.fixture
def store(home: CountingHome) -> WeightsStore:
    return WeightsStore(home)


def is_mapped(path: Path) -> bool:
    gc.collect()
    return str(path) in Path("/proc/self/maps").read_text()


def test_two_holders_share_one_set_of_tensors(store: WeightsStore, home: CountingHome, path: Path) -> None:
    first, second = store.hold(NAME, path), store.hold(NAME, path)
    assert first.tensors["w"] is second.tensors["w"]
    assert home.placed == 1
    assert store.held == {NAME: 2}
    assert first.bytes == 256


def test_the_last_release_frees_them_and_no_earlier_one(store: WeightsStore, path: Path) -> None:
    first, second = store.hold(NAME, path), store.hold(NAME, path)
    first.release()
    first.release()
    assert store.held == {NAME: 1}
    assert second.tensors["w"][3] == 3.0
    assert is_mapped(path)
    second.release()
    assert store.held == {}
    assert not is_mapped(path)


def test_a_holder_that_is_forgotten_releases_by_itself(store: WeightsStore, path: Path) -> None:
    held = store.hold(NAME, path)
    del held
    assert not is_mapped(path)
    assert store.held == {}


def test_tensors_in_use_outlive_the_release(store: WeightsStore, path: Path) -> None:
    with store.hold(NAME, path) as held:
        kept = held.tensors["w"]
    assert store.held == {}
    assert kept.sum() == 64 * 63 / 2
    assert is_mapped(path)


def test_after_the_last_release_they_are_loaded_anew(store: WeightsStore, home: CountingHome, path: Path) -> None:
    store.hold(NAME, path).release()
    with store.hold(NAME, path):
        assert home.placed == 2


def test_roles_that_load_at_once_load_once(store: WeightsStore, home: CountingHome, path: Path) -> None:
    together = threading.Barrier(8)

    def hold(_: int) -> object:
        together.wait(30)
        return store.hold(NAME, path)

    with ThreadPoolExecutor(8) as threads:
        held = list(threads.map(hold, range(8)))
    assert home.placed == 1
    assert store.held == {NAME: 8}
    del held
    assert not is_mapped(path)
    assert store.held == {}


def test_a_file_that_is_none_leaves_nothing_behind(store: WeightsStore, path: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no weights")
    with pytest.raises(BadWeights):
        store.hold(NAME, tmp_path / "broken")
    assert store.held == {}
    with store.hold(NAME, path) as held:
        assert "w" in held.tensors


def test_a_file_as_it_is_is_named_by_its_content(store: WeightsStore, path: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy", tmp_path / "other"
    copy.write_bytes(path.read_bytes())
    save_file({"w": torch.arange(1.0, 65.0)}, other)
    held = [store.hold_file(each, tmp_path / "cache") for each in (path, copy, other)]
    assert held[0].fingerprint == held[1].fingerprint != held[2].fingerprint
    assert held[0].tensors["w"] is held[1].tensors["w"]


class Doubler(Role):
    """A role around weights of its own, as docs/roles.md shows it."""

    def load(self, context: RoleContext) -> None:
        self.model = store_of(context.device).hold_file(Path(str(context.options["weights"])), context.cache)
        with torch.device("meta"):
            self.network = torch.nn.Linear(2, 2, bias=False).requires_grad_(False)
        self.network.load_state_dict(dict(self.model.tensors), assign=True)

    def unload(self) -> None:
        self.model.release()

    @method
    def twice(self, text: Text) -> Text:
        return text + text


def test_a_role_of_ones_own_computes_with_mapped_weights_and_registers_their_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "double.safetensors"
    save_file({"weight": 2 * torch.eye(2)}, path)
    role = Doubler()
    role.load(RoleContext(options={"weights": str(path)}, cache=tmp_path / "cache"))
    assert role.network(torch.tensor([1.0, 3.0])).tolist() == [2.0, 6.0]
    assert role.network.weight.data_ptr() == role.model.tensors["weight"].data_ptr()
    info = describe(Doubler)
    add_facts(info, role)
    assert info.weights_fingerprint == role.model.fingerprint
    role.unload()
    assert role.model.fingerprint not in store_of("cpu").held


def test_a_process_has_one_store_for_a_device() -> None:
    assert store_of("cpu") is store_of("cpu")


def test_a_device_that_is_not_there_is_said_with_the_key_to_correct() -> None:
    missing = torch.cuda.device_count()
    with pytest.raises(InvalidArgument, match=f"no cuda:{missing} here") as caught:
        store_of(f"cuda:{missing}")
    assert caught.value.field == "device"
