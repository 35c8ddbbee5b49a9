"""The weights that a process holds on a device: each set of them once, however many roles hold it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow_workers.weights.cache import cache_of, default_folder
from omniflow_workers.weights.fingerprint import AS_STORED, fingerprint
from omniflow_workers.weights.home import Home, Placed, home_of
from omniflow_workers.weights.mapped import map_file, views

if TYPE_CHECKING:
    import torch

_PLAIN = "as stored"


class HeldWeights:
    """One holder's claim on a set of weights. `release` it, or use it as a context manager, or let go of it.

    `fingerprint`: names the weights; `tensors`: by name, on the store's device, not to be written to; `metadata`: of
    the file; `bytes`: of all tensors together. A role that has one as `self.model` has its fingerprint registered.
    """

    def __init__(self, store: WeightsStore, fingerprint: str, loaded: _Loaded) -> None:
        self.fingerprint = fingerprint
        self.tensors: Mapping[str, torch.Tensor] = loaded.tensors
        self.metadata = loaded.metadata
        self.bytes = loaded.placed.data.nbytes
        self._end = weakref.finalize(self, store._let_go, fingerprint)

    def release(self) -> None:
        """Ends the claim; the last one on a set frees it, but for what tensors in use need. Again: nothing."""
        self.tensors = {}
        self._end()

    def __enter__(self) -> HeldWeights:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class _Loaded:
    placed: Placed
    tensors: Mapping[str, torch.Tensor]
    metadata: Mapping[str, str]


@dataclass(slots=True)
class _Slot:
    """A set of weights: who holds it or is about to, and what is loaded. `lock`: taken while it is being loaded."""

    holders: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    loaded: _Loaded | None = None


class WeightsStore:
    """Weights by fingerprint, on one device. Safe to use from several threads."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._slots: dict[str, _Slot] = {}
        # Reentrant: a claim may be collected, and so released, by whatever this thread does under it.
        self._lock = threading.RLock()

    def hold(self, fingerprint: str, path: Path) -> HeldWeights:
        """A claim on the weights `fingerprint`, which the safetensors file `path` has: loaded by the first claim.

        Raises `BadWeights`, and `OSError` when the file cannot be read.
        """
        with self._lock:
            slot = self._slots.setdefault(fingerprint, _Slot())
            slot.holders += 1
        try:
            with slot.lock:
                if slot.loaded is None:
                    slot.loaded = self._load(fingerprint, path)
                return HeldWeights(self, fingerprint, slot.loaded)
        except BaseException:
            self._let_go(fingerprint)
            raise

    def hold_file(self, path: Path, cache: Path | None = None) -> HeldWeights:
        """A claim on the weights of a safetensors file as it is, named by its content.

        `cache`: the role's `context.cache`, where the file's digest is remembered. Raises as `hold` does.
        """
        digests = cache_of(cache or default_folder()).digests
        return self.hold(fingerprint(digests.of(path), AS_STORED, _PLAIN), path)

    @property
    def held(self) -> dict[str, int]:
        """How many claims there are, by fingerprint."""
        with self._lock:
            return {name: slot.holders for name, slot in self._slots.items()}

    def _load(self, fingerprint: str, path: Path) -> _Loaded:
        file = map_file(path)
        placed = self._home.place(fingerprint, file)
        return _Loaded(placed, views(file.header, placed.data), file.header.metadata)

    def _let_go(self, fingerprint: str) -> None:
        with self._lock:
            slot = self._slots[fingerprint]
            slot.holders -= 1
            if slot.holders:
                return
            del self._slots[fingerprint]
        if slot.loaded is not None:
            slot.loaded.placed.close()


_stores: dict[str, WeightsStore] = {}
_lock = threading.Lock()


def store_of(device: str) -> WeightsStore:
    """This process's store for `device` ("cpu", "cuda:0"): one for all its roles."""
    name = device if ":" in device or device != "cuda" else "cuda:0"
    with _lock:
        if name not in _stores:
            _stores[name] = WeightsStore(home_of(name))
        return _stores[name]
