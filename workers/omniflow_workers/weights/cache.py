"""A folder of converted models: each converted once, whole or not there, checked before use."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "manifest.json"
_BLOCK = 1 << 24

Convert = Callable[[Path], None]
"""Writes the files of a converted model into an empty folder."""


class CacheWriteError(OSError):
    """The converted weights could not be written: no room, or no permission."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A converted model: a folder whose files have been checked against its manifest."""

    folder: Path
    converted: bool  # by this very call

    def file(self, name: str) -> Path:
        return self.folder / name


@dataclass(frozen=True, slots=True)
class WeightsCache:
    """The converted models under `folder`, each in a folder named by its fingerprint."""

    folder: Path

    def entry(self, fingerprint: str, convert: Convert) -> Entry:
        """The model `fingerprint`, converted first when it is not there or damaged.

        Of several processes that ask at once, one converts and the others wait. A conversion that is killed leaves
        nothing that could be taken for a model: the folder gets its name only when every file is on disk.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        final = self.folder / fingerprint
        if intact(final):
            return Entry(final, converted=False)
        with self._lock(fingerprint):
            if intact(final):
                return Entry(final, converted=False)
            shutil.rmtree(final, ignore_errors=True)
            for orphan in self.folder.glob(f"{fingerprint}.part-*"):  # left by a killed process: we hold the lock
                shutil.rmtree(orphan, ignore_errors=True)
            self._convert(fingerprint, final, convert)
        return Entry(final, converted=True)

    def _convert(self, fingerprint: str, final: Path, convert: Convert) -> None:
        part = Path(tempfile.mkdtemp(prefix=f"{fingerprint}.part-", dir=self.folder))
        try:
            convert(part)
            files = {path.name: _facts(path) for path in sorted(part.iterdir())}
            (part / MANIFEST).write_text(json.dumps({"fingerprint": fingerprint, "files": files}, indent=1))
            for path in part.iterdir():
                _sync(path)
            _sync(part)
            part.rename(final)
            _sync(self.folder)
        except OSError as error:
            raise CacheWriteError(
                error.errno, f"cannot write converted weights: {error.strerror}; free room or set OMNIFLOW_CACHE", part
            ) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)

    @contextmanager
    def _lock(self, fingerprint: str) -> Iterator[None]:
        with (self.folder / f"{fingerprint}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the kernel drops it when the process dies
            yield


def default_folder() -> Path:
    """`$OMNIFLOW_CACHE`, else `omniflow` in the user's cache folder: what a worker hands its roles."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "omniflow"
    return Path(os.environ.get("OMNIFLOW_CACHE", default))


def intact(folder: Path) -> bool:
    """Whether every file of the manifest is there with its size and checksum."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        return all(_facts(folder / name) == facts for name, facts in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _facts(path: Path) -> dict[str, int]:
    """Size and CRC-32. The checksum is there against damage, not against malice: it must be quick (1 GB/s)."""
    crc, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return {"bytes": size, "crc32": crc}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
