"""From `name=value` and `name=@file` to a job's inputs, by the types that the flow declares."""

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omniflow.errors import InvalidArgument
from omniflow.types import AnyRecord, Audio, Image, Kind, Tensor, ValueType, Video

_FROM_FILES = {
    Kind.IMAGE: "an image file",
    Kind.AUDIO: "a sound file",
    Kind.VIDEO: "a video file",
    Kind.TENSOR: "an array file (.npy)",
}


def split_assignments(given: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Name and text of each `name=text`. Raises `InvalidArgument`."""
    pairs = []
    for assignment in given:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise InvalidArgument(
                f"'{assignment}' assigns nothing",
                field=option,
                cure=f"write {option} NAME=VALUE or {option} NAME=@FILE",
            )
        pairs.append((name, text))
    return pairs


def read_inputs(types: Mapping[str, ValueType], given: Iterable[str]) -> dict[str, Any]:
    """The inputs by name; one given several times becomes a stream's frames. Raises `InvalidArgument` naming it."""
    values: dict[str, Any] = {}
    for name, text in split_assignments(given, "--input"):
        if name not in types:
            near = difflib.get_close_matches(name, types, n=1)
            listed = ", ".join(f"{known}: {kind}" for known, kind in types.items()) or "none"
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise InvalidArgument(f"the flow has no input '{name}'", field=name, cure=f"{hint}its inputs are: {listed}")
        kind = types[name]
        value = read_value(kind, text, name)
        if kind.stream:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise InvalidArgument("is given twice, but is no stream", field=name, cure="give it once")
        else:
            values[name] = value
    missing = [name for name, kind in types.items() if name not in values and not kind.optional]
    if missing:
        raise InvalidArgument(
            f"input '{missing[0]}' is missing", field=missing[0], cure=f"add --input {_example(missing[0], types)}"
        )
    return values


def read_parameters(given: Iterable[str]) -> dict[str, Any]:
    """By "node.parameter": a JSON number, boolean or list; anything else is text."""
    return {name: _json_or_text(_text(text, name)) for name, text in split_assignments(given, "--param")}


def read_value(kind: ValueType, text: str, name: str) -> Any:
    """One frame of `kind` from the command line's text, or from the file that it names."""
    if kind.kind in _FROM_FILES:
        if not text.startswith("@"):
            raise InvalidArgument(f"wants {_FROM_FILES[kind.kind]}", field=name, cure=f"write {name}=@FILE")
        return _read_media(kind.kind, text[1:], name)
    content = _text(text, name)
    return content if kind.kind is Kind.TEXT else _from_json(kind, _parse(content, kind, name), name)


def _text(text: str, name: str) -> str:
    """`@file` is that file's content, `@@...` a text that starts with an @."""
    if text.startswith("@@"):
        return text[1:]
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot read {text[1:]}: {error.strerror}", field=name, cure="check the path") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{text[1:]} is not UTF-8 text", field=name, cause=str(error), cure="convert it"
        ) from None


def _read_media(kind: Kind, path: str, name: str) -> Image | Audio | Video | Tensor:
    try:
        match kind:
            case Kind.IMAGE:
                return Image.open(path)
            case Kind.AUDIO:
                return Audio.open(path)
            case Kind.VIDEO:
                return Video.open(path)
            case _:
                return _read_tensor(path)
    except InvalidArgument as error:
        error.field = name
        raise


def _read_tensor(path: str) -> Tensor:
    import numpy as np

    try:
        return Tensor.from_array(np.load(path, allow_pickle=False))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read the array {path}", cause=str(error), cure="give a .npy file") from None


def _parse(content: str, kind: ValueType, name: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise InvalidArgument(f"wants {kind.frame()} as JSON", field=name, cause=str(error), cure="quote it") from None


def _from_json(kind: ValueType, value: Any, name: str) -> Any:
    if kind.kind is Kind.LIST and kind.item is not None and isinstance(value, list):
        return [_from_json(kind.item, item, f"{name}[{index}]") for index, item in enumerate(value)]
    if kind.kind is Kind.RECORD and isinstance(value, dict):
        fields = {field.name: field.type for field in kind.fields}
        unknown = [key for key in value if key not in fields]
        if unknown:
            raise InvalidArgument(
                f"{kind.record} has no field '{unknown[0]}'", field=name, cure=f"its fields: {', '.join(fields)}"
            )
        members = {key: _from_json(fields[key], member, f"{name}.{key}") for key, member in value.items()}
        return AnyRecord(kind.record, members)
    if kind.kind in _FROM_FILES:
        return read_value(kind, str(value), name)
    return value


def _json_or_text(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if value is None or isinstance(value, dict) else value


def _example(name: str, types: Mapping[str, ValueType]) -> str:
    return f"{name}=@FILE" if types[name].kind in _FROM_FILES else f"{name}=VALUE"
