"""Moving pictures, kept in their container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omniflow.errors import InvalidArgument
from omniflow.types.buffers import Data
from omniflow.types.limits import require_bytes


@dataclass(frozen=True, slots=True)
class Video:
    """An encoded video. `format`: "mp4", "matroska" (WebM too), "avi" or "mpeg-ts", told from the bytes."""

    data: Data = field(repr=False)
    format: str

    def __hash__(self) -> int:
        return hash((bytes(self.data), self.format))

    @classmethod
    def open(cls, path: str | Path) -> Video:
        """Reads a file. Raises `InvalidArgument`."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidArgument(
                f"cannot read the video {path}: {error.strerror}", field=str(path), cure="check the path"
            ) from error
        return cls.from_bytes(data, origin=str(path))

    @classmethod
    def from_bytes(cls, data: Data, *, origin: str = "") -> Video:
        """Raises `InvalidArgument` when the bytes are no container that is known here."""
        data = require_bytes(data, "Video", origin)
        container = _container(bytes(data[:189]))
        if container is None:
            raise InvalidArgument(
                f"not a video: {len(data)} bytes that start with {bytes(data[:8])!r}",
                field=origin,
                cure="send MP4, WebM, Matroska, AVI or MPEG-TS",
            )
        return cls(data, container)


def _container(data: bytes) -> str | None:
    if data[4:8] == b"ftyp":
        return "mp4"
    if data[:4] == b"\x1a\x45\xdf\xa3":
        return "matroska"
    if data[:4] == b"RIFF" and data[8:12] == b"AVI ":
        return "avi"
    if data[:1] == b"\x47" and data[188:189] in (b"\x47", b""):
        return "mpeg-ts"
    return None
