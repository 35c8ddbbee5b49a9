"""A job's results as files: text to .txt, sound to one .wav, a picture in its own format."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from omniflow.errors import InvalidArgument, OmniFlowError
from omniflow.types import AnyRecord, Audio, Image, Tensor, Video
from omniflow.types.buffers import Data

# What fits a terminal without pushing everything else off it.
LONGEST_SHOWN_TEXT = 2_000


def make_output_folder(folder: Path) -> None:
    """Before the job runs, so that a bad path costs nothing. Raises `InvalidArgument`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"cannot make the folder {folder}: {error.strerror}", field="--output", cure="name another one"
        ) from None


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """`make_output_folder`; what was made of it for nothing is gone afterwards.

    So a job that was refused, or failed before its first frame, leaves no empty folder.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        make_output_folder(folder)
        yield
    finally:
        _remove_empty(made)


def _remove_empty(folders: Sequence[Path]) -> None:
    """The innermost first; a folder with something in it stays, and so do those around it."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def short_text(values: Sequence[Any]) -> str:
    """The text of a result for a terminal; "" when it is no text, or too long for that."""
    if not all(isinstance(value, str) for value in values):
        return ""
    text = "".join(values)
    return text if len(text) <= LONGEST_SHOWN_TEXT else ""


def write_results(folder: Path, frames: Mapping[str, Sequence[Any]]) -> dict[str, list[Path]]:
    """The files of each result that gave anything. A stream of text or sound becomes one file.

    Raises `OmniFlowError` when the disk does not take them.
    """
    try:
        return {port: _write(folder, port, values) for port, values in frames.items() if values}
    except OSError as error:
        raise cannot_write(folder, error) from None


def cannot_write(place: Path, error: OSError) -> OmniFlowError:
    """What to say of a full disk or a missing right."""
    return OmniFlowError(
        f"cannot write to {error.filename or place}: {error.strerror}",
        field="--output",
        cure="make room there, or name another place",
    )


def _write(folder: Path, port: str, values: Sequence[Any]) -> list[Path]:
    if all(isinstance(value, str) for value in values):
        return [_text_file(folder / f"{port}.txt", "".join(values))]
    if all(isinstance(value, Audio) for value in values):
        return [_bytes_file(folder / f"{port}.wav", Audio.concat(values).to_wav())]
    if len(values) == 1:
        return [_one(folder / port, values[0])]
    return [_one(folder / f"{port}-{index}", value) for index, value in enumerate(values)]


def _one(stem: Path, value: Any) -> Path:
    """The stem may hold dots, so the ending is added, not replaced."""
    match value:
        case str():
            return _text_file(Path(f"{stem}.txt"), value)
        case Audio():
            return _bytes_file(Path(f"{stem}.wav"), value.to_wav())
        case Image() | Video():
            return _bytes_file(Path(f"{stem}.{value.format}"), value.data)
        case Tensor() if value.dtype != "bfloat16":
            import numpy as np

            path = Path(f"{stem}.npy")
            np.save(path, value.array(), allow_pickle=False)
            return path
        case _:
            return _text_file(Path(f"{stem}.json"), json.dumps(_jsonable(value, stem), indent=1))


def _jsonable(value: Any, stem: Path) -> Any:
    """Media inside a record or list go into files of their own, named in its place."""
    match value:
        case AnyRecord():
            return {name: _jsonable(member, Path(f"{stem}.{name}")) for name, member in value.fields.items()}
        case list() | tuple():
            return [_jsonable(item, Path(f"{stem}.{index}")) for index, item in enumerate(value)]
        case str() | bool() | int() | float() | None:
            return value
        case Tensor():
            return {"dtype": value.dtype, "shape": list(value.shape)}
        case _:
            return _one(stem, value).name


def _text_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _bytes_file(path: Path, data: Data) -> Path:
    path.write_bytes(data)
    return path
