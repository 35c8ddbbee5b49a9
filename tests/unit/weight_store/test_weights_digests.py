"""A file's digest is remembered for as long as the file stays what it was, and not longer."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from omniflow_workers.weights import digests
from omniflow_workers.weights.digests import Digests


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


def remembered(folder: Path) -> list[Path]:
    return list(folder.glob("*.json"))


def falsify(note: Path) -> None:
    """Shows whether a digest was remembered or made: a note that says something else."""
    note.write_text(json.dumps({**json.loads(note.read_text()), "sha256": "remembered"}))


def test_a_file_that_stays_what_it_was_is_read_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_SETTLED_S", -1.0)
    known = Digests(tmp_path / "digests")
    assert known.of(file) == hashlib.sha256(b"weights").hexdigest()
    (note,) = remembered(known.folder)
    falsify(note)
    assert known.of(file) == "remembered"


@pytest.mark.parametrize("change", ["a byte, at the same size", "another file of the same name"])
def test_a_file_that_has_changed_is_read_again(
    change: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_SETTLED_S", -1.0)
    known = Digests(tmp_path / "digests")
    known.of(file)
    (note,) = remembered(known.folder)
    seen = json.loads(note.read_text())["seen"]
    while digests._appearance(file) == seen:  # the kernel's clock for files has coarse ticks
        if change.startswith("another"):
            (tmp_path / "other").write_bytes(b"WEIGHTS")
            (tmp_path / "other").rename(file)
        else:
            file.write_bytes(b"WEIGHTS")
    assert known.of(file) == hashlib.sha256(b"WEIGHTS").hexdigest()


def test_a_file_that_has_just_been_written_is_not_remembered(file: Path, tmp_path: Path) -> None:
    known = Digests(tmp_path / "digests")
    known.of(file)
    assert not remembered(known.folder)


@pytest.mark.parametrize("harm", ["", "{", "[]", '{"seen": 1}'])
def test_a_damaged_note_counts_as_none(harm: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED_S", -1.0)
    known = Digests(tmp_path / "digests")
    known.of(file)
    (note,) = remembered(known.folder)
    note.write_text(harm)
    assert known.of(file) == hashlib.sha256(b"weights").hexdigest()


def test_a_folder_that_cannot_be_written_costs_time_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED_S", -1.0)
    assert Digests(file / "no folder").of(file) == hashlib.sha256(b"weights").hexdigest()
