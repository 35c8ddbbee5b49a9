"""Pictures, kept encoded. The header is read at once; pixels only when asked for."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omniflow.errors import InvalidArgument, TooLarge
from omniflow.types.buffers import Data
from omniflow.types.limits import MAX_PIXELS, require_bytes

if TYPE_CHECKING:  # both come with the first picture: processes that see none start half a second sooner
    import numpy as np
    import numpy.typing as npt
    from PIL import Image as Pillow

# PNG, JPEG, GIF, WebP: what starts like one of these and cannot be read is damaged rather than something else.
_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")


@dataclass(frozen=True, slots=True)
class Image:
    """An encoded picture.

    `data`: the file's bytes; `format`: its encoding in lower case ("png", "jpeg", …); `width`, `height`: pixels.
    Make one by `open`, `from_bytes`, `from_pil` or `from_array`: these read the header and refuse what is not a
    picture or has over `max_pixels` pixels before anything is decoded.
    """

    data: Data = field(repr=False)
    format: str
    width: int
    height: int
    origin: str = field(default="", repr=False, compare=False)  # the input that brought it, for messages

    def __hash__(self) -> int:
        return hash((bytes(self.data), self.format))

    @classmethod
    def open(cls, path: str | Path, *, max_pixels: int = MAX_PIXELS) -> Image:
        """Reads a file. Raises `InvalidArgument` (missing, no picture, truncated) or `TooLarge`."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidArgument(
                f"cannot read the image {path}: {error.strerror}", field=str(path), cure="check the path"
            ) from error
        return cls.from_bytes(data, max_pixels=max_pixels, origin=str(path))

    @classmethod
    def from_bytes(cls, data: Data, *, max_pixels: int = MAX_PIXELS, origin: str = "") -> Image:
        """An encoded picture's bytes, decoded once to prove them whole.

        Raises `InvalidArgument` (no picture, truncated) or `TooLarge`, naming `origin` as the field.
        """
        image = cls.from_header(data, max_pixels=max_pixels, origin=origin)
        image.pil()
        return image

    @classmethod
    def from_header(cls, data: Data, *, max_pixels: int = MAX_PIXELS, origin: str = "") -> Image:
        """Like `from_bytes`, but trusts that the pixels are whole until they are asked for."""
        from PIL import Image as Pillow
        from PIL import UnidentifiedImageError

        data = require_bytes(data, "Image", origin)
        try:
            with Pillow.open(io.BytesIO(data)) as opened:
                width, height = opened.size
                encoding = (opened.format or "").lower()
        except Pillow.DecompressionBombError as error:
            raise _too_large(str(error), origin) from error
        except UnidentifiedImageError as error:
            if bytes(data[:4]).startswith(_SIGNATURES):
                raise _damaged(data, error, origin) from error
            raise InvalidArgument(
                f"not a picture: {len(data)} bytes that start with {bytes(data[:8])!r}",
                field=origin,
                cure="send PNG, JPEG, WebP, GIF, BMP or TIFF",
            ) from error
        except Exception as error:  # a decoder's own words about a damaged header, of any type
            raise _damaged(data, error, origin) from error
        if width * height > max_pixels:
            raise _too_large(f"{width} x {height} pixels is over the limit of {max_pixels:,}", origin)
        return cls(data, encoding, width, height, origin)

    @classmethod
    def from_pil(cls, picture: Pillow.Image, *, format: str = "png") -> Image:
        """Encodes a Pillow image; losslessly unless `format` says otherwise."""
        buffer = io.BytesIO()
        picture.save(buffer, format=format)
        return cls.from_header(buffer.getvalue())

    @classmethod
    def from_array(cls, pixels: npt.NDArray[Any], *, format: str = "png") -> Image:
        """uint8, shape (height, width), (height, width, 3) RGB or (height, width, 4) RGBA."""
        import numpy as np
        from PIL import Image as Pillow

        wanted = pixels.dtype == np.uint8 and (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4)))
        if not wanted or pixels.size == 0:
            raise InvalidArgument(
                f"an image's pixels cannot be {pixels.dtype} of shape {pixels.shape}",
                cure="pass uint8 of shape (height, width), (height, width, 3) or (height, width, 4)",
            )
        return cls.from_pil(Pillow.fromarray(np.ascontiguousarray(pixels)), format=format)

    def pil(self) -> Pillow.Image:
        """The decoded picture. Raises `InvalidArgument` when the bytes are damaged or truncated."""
        from PIL import Image as Pillow

        try:
            picture = Pillow.open(io.BytesIO(self.data))
            picture.load()
        except Pillow.DecompressionBombError as error:
            raise _too_large(str(error), self.origin) from error
        except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, struct.error, …
            raise _damaged(self.data, error, self.origin) from error
        return picture

    def array(self) -> npt.NDArray[np.uint8]:
        """RGB pixels: uint8, shape (height, width, 3)."""
        import numpy as np

        return np.asarray(self.pil().convert("RGB"))

    def named(self, origin: str) -> Image:
        """The same picture, called `origin` in messages."""
        return replace(self, origin=origin)


def _damaged(data: Data, error: Exception, origin: str) -> InvalidArgument:
    return InvalidArgument(
        f"the image is damaged or truncated ({len(data)} bytes)",
        field=origin,
        cause=str(error),
        cure="send the whole file; does an image viewer open it?",
    )


def _too_large(reason: str, origin: str) -> TooLarge:
    return TooLarge(f"the image is too large: {reason}", field=origin, cure="scale the picture down before sending it")
