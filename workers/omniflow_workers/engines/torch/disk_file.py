"""The file of an engine's pages on disk: what it is called, how many pages fit, what happens to one that is unfit."""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from omniflow.errors import InvalidArgument
from omniflow_core import ArenaDamaged, ArenaLayout, ArenaMismatch, CoreError, DiskArena
from omniflow_workers.engines.stored import StoredPages
from omniflow_workers.engines.torch.disk_tier import DiskTier
from omniflow_workers.engines.torch.pages import EnginePages

log = logging.getLogger(__name__)

_BLOCK = 4096  # what pages of a disk arena begin at
_HEADER_BYTES = 2 * _BLOCK
_RECORD_BYTES = 96  # that a disk arena has for each page beside it


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """`folder`: where the file is, `owner`: whose it is; no two that run at once may be called alike on one host.
    `size`: bytes of the file at most."""

    folder: Path
    owner: tuple[str, ...]
    size: int


def open_disk_tier(pages: EnginePages, limit: int, options: DiskOptions) -> DiskTier | None:
    """None when there can be none now, which is logged: the engine does without. Raises `InvalidArgument` for a size
    that holds no page. `limit`: pages that the engine may have at once."""
    slot = -(-pages.page_bytes // _BLOCK) * _BLOCK + _RECORD_BYTES
    fits = (options.size - _HEADER_BYTES) // slot
    if fits < 1:
        raise InvalidArgument(
            f"kv_disk_bytes={options.size} holds no page: one takes {slot} bytes",
            field="kv_disk_bytes",
            cure=f"give at least {_HEADER_BYTES + slot}, or 0 for no pages on disk",
        )
    named = hashlib.blake2b(
        "\0".join((*options.owner, pages.model, pages.layout, str(pages.page_tokens))).encode(), digest_size=32
    ).digest()
    path = options.folder / f"{_readable(options.owner)}.{named.hex()[:24]}.pages"
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        layout = ArenaLayout("pages", page_bytes=pages.page_bytes, pages=fits, fingerprint=named)
        stored = StoredPages(_open(path, layout), pages.allocator)
    except (CoreError, OSError) as error:
        log.warning("pages of prompts are not kept on disk: %s", error)
        return None
    log.info("pages of prompts are kept in %s: room for %d, %d are there", path, stored.total, len(stored))
    return DiskTier(pages, stored, limit)


def _open(path: Path, layout: ArenaLayout) -> DiskArena:
    """The file, or a new one in place of one that cannot be used: one of another size, say. What is in it can be
    computed again, and its name says that it is ours."""
    try:
        return DiskArena(path, layout)
    except (ArenaMismatch, ArenaDamaged) as error:
        log.warning("begins anew with pages on disk: %s", error)
        path.unlink()
        return DiskArena(path, layout)


def _readable(owner: tuple[str, ...]) -> str:
    return ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in owner if part)[:100]
