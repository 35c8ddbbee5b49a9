"""Uncompressed sound."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omniflow.errors import InvalidArgument
from omniflow.types.buffers import Data, aligned
from omniflow.types.limits import MAX_CHANNELS, MAX_SAMPLE_RATE

if TYPE_CHECKING:  # NumPy comes with the first array: processes that make none start sooner
    import numpy.typing as npt

Encoding = Literal["pcm_s16", "pcm_f32"]
_DTYPES = {"pcm_s16": "<i2", "pcm_f32": "<f4"}


@dataclass(frozen=True, slots=True)
class Audio:
    """Interleaved little-endian samples.

    `encoding`: "pcm_s16" (16-bit integers) or "pcm_f32" (floats in -1..1); `sample_rate`: Hz; `channels`: from 1.
    Raises `InvalidArgument` when the bytes do not make whole frames of that form. An empty sound is a sound.
    """

    data: Data = field(repr=False)
    encoding: Encoding
    sample_rate: int
    channels: int = 1

    def __hash__(self) -> int:
        return hash((bytes(self.data), self.encoding, self.sample_rate, self.channels))

    def __post_init__(self) -> None:
        if self.encoding not in _DTYPES:
            raise InvalidArgument(
                f"unknown audio encoding {self.encoding!r}", field="encoding", cure='use "pcm_s16" or "pcm_f32"'
            )
        if not 1 <= self.sample_rate <= MAX_SAMPLE_RATE:
            raise InvalidArgument(
                f"a sample rate of {self.sample_rate} Hz", field="sample_rate", cure=f"give Hz in 1..{MAX_SAMPLE_RATE}"
            )
        if not 1 <= self.channels <= MAX_CHANNELS:
            raise InvalidArgument(
                f"audio of {self.channels} channels", field="channels", cure=f"give 1..{MAX_CHANNELS}"
            )
        frame = _sample_bytes(self.encoding) * self.channels
        if len(self.data) % frame:
            raise InvalidArgument(
                f"{len(self.data)} bytes of audio are no whole number of {frame}-byte frames",
                field="data",
                cure="the data is truncated, or encoding or channels are wrong",
            )

    @classmethod
    def from_array(cls, samples: npt.NDArray[Any], sample_rate: int) -> Audio:
        """Samples of shape (frames,) or (frames, channels): int16 is kept as such, floats become float32."""
        import numpy as np

        if (
            samples.ndim not in (1, 2)
            or samples.dtype.kind not in "if"
            or (samples.dtype.kind == "i" and samples.dtype.itemsize != 2)
        ):
            raise InvalidArgument(
                f"audio cannot be {samples.dtype} of shape {samples.shape}",
                cure="pass int16 or floats in -1..1, of shape (frames,) or (frames, channels)",
            )
        encoding: Encoding = "pcm_s16" if samples.dtype.kind == "i" else "pcm_f32"
        channels = 1 if samples.ndim == 1 else int(samples.shape[1])
        data = np.ascontiguousarray(samples, dtype=_DTYPES[encoding]).tobytes()
        return cls(data, encoding, sample_rate, channels)

    @classmethod
    def open(cls, path: str | Path) -> Audio:
        """Reads a WAV file of 16-bit samples."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidArgument(
                f"cannot read the sound {path}: {error.strerror}", field=str(path), cure="check the path"
            ) from error
        return cls.from_wav(data, origin=str(path))

    @classmethod
    def from_wav(cls, data: bytes, *, origin: str = "") -> Audio:
        """The bytes of a WAV file of 16-bit samples. Raises `InvalidArgument`."""
        try:
            with wave.open(io.BytesIO(data)) as reader:
                width, frames = reader.getsampwidth(), reader.getnframes()
                rate, channels = reader.getframerate(), reader.getnchannels()
                samples = reader.readframes(frames)
        except (wave.Error, EOFError) as error:
            raise InvalidArgument(
                "not a readable WAV file", field=origin, cause=str(error), cure="convert it to 16-bit PCM WAV"
            ) from error
        if width != 2:
            raise InvalidArgument(
                f"a WAV file of {8 * width}-bit samples", field=origin, cure="convert it to 16-bit PCM WAV"
            )
        if len(samples) != frames * width * channels:
            raise InvalidArgument(
                f"the WAV file is truncated: {len(samples)} bytes of samples of {frames * width * channels}",
                field=origin,
                cure="send the whole file",
            )
        return cls(samples, "pcm_s16", rate, channels)

    @classmethod
    def concat(cls, parts: Iterable[Audio]) -> Audio:
        """The sounds one after another; they must agree in encoding, rate and channels. Raises `InvalidArgument`."""
        pieces = list(parts)
        if not pieces:
            raise InvalidArgument("no sound to join", cure="pass at least one Audio")
        first = pieces[0]
        for piece in pieces:
            if (piece.encoding, piece.sample_rate, piece.channels) != (
                first.encoding,
                first.sample_rate,
                first.channels,
            ):
                raise InvalidArgument(f"cannot join {first!r} and {piece!r}", cure="convert them to one form first")
        return cls(b"".join(piece.data for piece in pieces), first.encoding, first.sample_rate, first.channels)

    @property
    def frames(self) -> int:
        """Samples per channel."""
        return len(self.data) // (_sample_bytes(self.encoding) * self.channels)

    @property
    def seconds(self) -> float:
        return self.frames / self.sample_rate

    def array(self) -> npt.NDArray[Any]:
        """Samples without a copy, read-only: int16 or float32, shape (frames, channels)."""
        import numpy as np

        return aligned(np.frombuffer(self.data, _DTYPES[self.encoding])).reshape(-1, self.channels)

    def to_wav(self) -> bytes:
        """A WAV file of 16-bit samples; floats beyond -1..1 are clipped."""
        import numpy as np

        samples = self.array()
        if self.encoding == "pcm_f32":
            samples = (np.nan_to_num(np.clip(samples, -1.0, 1.0)) * 32767.0).round().astype("<i2")
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as writer:
            writer.setnchannels(self.channels)
            writer.setsampwidth(2)
            writer.setframerate(self.sample_rate)
            writer.writeframes(samples.tobytes())
        return buffer.getvalue()


def _sample_bytes(encoding: str) -> int:
    return int(_DTYPES[encoding][-1])
