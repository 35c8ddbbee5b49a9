"""Where the workers' Unix sockets lie. The kernel allows 108 bytes for a path, a run folder may be longer than that."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from omniflow.launch.errors import LaunchError

MAX_PATH_BYTES = 107


def socket_folder(run: Path, names: Iterable[str], environment: Mapping[str, str] = os.environ) -> Path:
    """`run`/sockets; where a name would not fit there, a short folder with a stable name for this run folder."""
    inside = run / "sockets"
    longest = max((len(os.fsencode(f"{name}.sock")) for name in names), default=0)
    if _fits(inside, longest):
        return inside
    digest = hashlib.blake2s(os.fsencode(run), digest_size=6).hexdigest()
    for base in (environment.get("XDG_RUNTIME_DIR"), "/tmp"):  # noqa: S108 checked below to be ours
        if base and Path(base).is_dir() and _fits(short := Path(base, f"omniflow-{os.getuid()}-{digest}"), longest):
            return short
    raise LaunchError(
        f"no folder is short enough for Unix sockets of {longest} bytes", cure="give the workers shorter names"
    )


def make_socket_folder(folder: Path) -> None:
    """Makes it, for this user alone, empty of what an earlier run left. Raises `LaunchError` if it is another's."""
    remove_socket_folder(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise LaunchError(
            f"{folder}, meant for the workers' sockets, belongs to someone else",
            cure="remove it, or set XDG_RUNTIME_DIR to a folder of your own",
        )


def remove_socket_folder(folder: Path) -> None:
    """Removes the sockets and the folder, if it is ours."""
    if folder.is_dir() and not folder.is_symlink() and folder.lstat().st_uid == os.getuid():
        shutil.rmtree(folder, ignore_errors=True)


def _fits(folder: Path, longest: int) -> bool:
    return len(os.fsencode(folder)) + 1 + longest <= MAX_PATH_BYTES
