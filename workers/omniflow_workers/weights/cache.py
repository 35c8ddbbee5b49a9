"""A folder of converted models: each converted once, whole or not there, checked before use."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from omniflow_workers.stop_at import stop_at
from omniflow_workers.weights.digests import Digests, content_digest
from omniflow_workers.weights.errors import CacheNotWritable, NoRoomForWeights
from omniflow_workers.weights.room import FULL, free_at

MANIFEST = "manifest.json"
_PART = ".part-"
_BLOCK = 4096
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)

Convert = Callable[[Path], None]
"""Writes the files of a converted model into an empty folder."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A converted model: a folder whose files have been checked against its manifest."""

    folder: Path
    converted: bool  # by this very call

    def file(self, name: str) -> Path:
        return self.folder / name


@dataclass(frozen=True, slots=True)
class WeightsCache:
    """The converted models under `folder`, each in a folder named by its fingerprint.

    Only the owner of a name's lock writes under that name, in a folder of its own, which gets the name at the end: so
    what has the name is whole, unless it was damaged later, which its manifest tells.
    """

    folder: Path

    @property
    def digests(self) -> Digests:
        """What is remembered of files that were read."""
        return Digests(self.folder / "digests")

    def entry(self, fingerprint: str, convert: Convert) -> Entry:
        """The model `fingerprint`, converted first when it is not there or damaged.

        Of several processes that ask at once, one converts and the others wait. A conversion that is killed leaves
        nothing that could be taken for a model, and what it leaves is removed by the next one, of whatever model.
        Raises `NoRoomForWeights`, `CacheNotWritable`, and what `convert` raises.
        """
        final = self.folder / fingerprint
        if self.intact(final):
            return Entry(final, converted=False)
        with self._writing(), self._lock(fingerprint):
            if self.intact(final):
                return Entry(final, converted=False)
            self._sweep(fingerprint)
            # Who has mapped a damaged file keeps what he has: it is removed, never written to.
            shutil.rmtree(final, ignore_errors=True)
            self._convert(fingerprint, final, convert)
        return Entry(final, converted=True)

    def intact(self, folder: Path) -> bool:
        """Whether every file of the manifest is there with its size and digest."""
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            return manifest["fingerprint"] == folder.name and all(
                (folder / name).stat().st_size == facts["bytes"] and self.digests.of(folder / name) == facts["sha256"]
                for name, facts in manifest["files"].items()
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def _convert(self, fingerprint: str, final: Path, convert: Convert) -> None:
        part = Path(tempfile.mkdtemp(prefix=f"{fingerprint}{_PART}", dir=self.folder))
        try:
            convert(part)
            stop_at("weights-written")
            files = {path.name: _facts(path) for path in sorted(part.iterdir())}
            (part / MANIFEST).write_text(json.dumps({"fingerprint": fingerprint, "files": files}, indent=1))
            for path in part.iterdir():
                path.chmod(0o444)  # others have it mapped: to change it, remove it
                _sync(path)
            _sync(part)
            stop_at("weights-unnamed")
            part.rename(final)
            _sync(self.folder)
        except OSError as error:
            if error.errno in FULL:
                room = free_at(self.folder) + sum(path.stat().st_size for path in part.iterdir())
                raise NoRoomForWeights(self.folder, room + _BLOCK, room) from error
            raise
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _sweep(self, fingerprint: str) -> None:
        """Removes what killed conversions left. We hold the lock of `fingerprint`; of others, what nobody writes."""
        for part in self.folder.glob(f"*{_PART}*"):
            name = part.name.partition(_PART)[0]
            if name == fingerprint:
                shutil.rmtree(part, ignore_errors=True)
                continue
            with suppress(BlockingIOError), self._lock(name, wait=False):
                shutil.rmtree(part, ignore_errors=True)

    @contextmanager
    def _lock(self, fingerprint: str, *, wait: bool = True) -> Iterator[None]:
        """The kernel drops it when the process dies. Raises `BlockingIOError` without `wait` when another has it."""
        path = self.folder / f"{fingerprint}.lock"
        how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("w") as file:
                fcntl.flock(file, how)
                if _is_at(file.fileno(), path):
                    yield
                    return
                # Somebody cleared the folder while we waited: by now others lock another file.

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in _FORBIDDEN:
                raise
            raise CacheNotWritable(
                error.errno,
                f"cannot write converted weights: {error.strerror}; set `cache:` in the cluster file (OMNIFLOW_CACHE) "
                "to a folder that this user may write to",
                str(error.filename or self.folder),
            ) from error


def default_folder() -> Path:
    """`$OMNIFLOW_CACHE`, else `omniflow` in the user's cache folder: what a worker hands its roles."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "omniflow"
    return Path(os.environ.get("OMNIFLOW_CACHE", default))


def cache_of(folder: Path) -> WeightsCache:
    """The converted models of a worker whose cache folder is `folder`."""
    return WeightsCache(folder / "weights")


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _facts(path: Path) -> dict[str, object]:
    return {"bytes": path.stat().st_size, "sha256": content_digest(path)}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
