"""Content digests of large files, remembered for as long as a file stays what it was."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SETTLED_S = 2.0
"""A file changed less than this ago is read again next time: a further change might leave the same time stamp."""


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 of files, 64 hex digits, remembered under `folder`.

    A file is read once after every change of its size, inode or time of change (which the kernel sets, and nobody
    else), and once after every start of the machine: what a disk loses, it loses while nobody looks.
    """

    folder: Path

    def of(self, path: Path) -> str:
        """Raises `OSError` when the file cannot be read."""
        now = time.time()
        seen = _appearance(path)
        note = self.folder / (hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32] + ".json")
        known = _read(note)
        if known is not None and known.get("seen") == seen:
            return str(known["sha256"])
        digest = content_digest(path)
        changed = path.stat().st_ctime
        if _appearance(path) == seen and now - changed > _SETTLED_S:
            with suppress(OSError):  # forgotten, then: no harm but time
                self._remember(note, {"path": str(path), "seen": seen, "sha256": digest})
        return digest

    def _remember(self, note: Path, content: dict[str, object]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = note.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(content))
        part.rename(note)


def content_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _appearance(path: Path) -> list[object]:
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, _boot()]


def _read(note: Path) -> dict[str, object] | None:
    try:
        known = json.loads(note.read_text())
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and isinstance(known.get("sha256"), str) else None


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
