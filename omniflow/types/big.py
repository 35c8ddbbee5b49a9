"""Payloads that hold big media or tensors: written in parts and read in place, the same on the wire as `codec`'s.

Where a value is small, or a small part of a big one, `codec` does it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from typing_extensions import Buffer

from omniflow.errors import InvalidArgument
from omniflow.types.audio import Audio
from omniflow.types.buffers import BIG_BYTES, Data
from omniflow.types.codec import (
    ENCODINGS,
    audio_from,
    check,
    decode,
    encode,
    from_message,
    least_bytes,
    listed,
    members_of,
    record_from,
    record_name,
    refuse_oversized,
    require_kind,
    tensor_from,
    to_message,
)
from omniflow.types.image import Image
from omniflow.types.limits import MAX_FRAME_BYTES
from omniflow.types.record import AnyRecord
from omniflow.types.tensor import Tensor
from omniflow.types.value_type import ValueType
from omniflow.types.video import Video
from omniflow.types.wire import DamagedError, Encoded, Writer, fields, split
from omniflow.v1 import value_pb2

# Numbers of fields in value.proto.
_KINDS = {1: "text", 2: "image", 3: "audio", 4: "video", 5: "tensor", 6: "record", 7: "list"}
_IMAGE, _AUDIO, _VIDEO, _TENSOR, _RECORD, _LIST = range(2, 8)
_DATA = {_IMAGE: 1, _AUDIO: 1, _VIDEO: 1, _TENSOR: 3}
_PADDING = {_AUDIO: 5, _TENSOR: 4}
_ITEMS, _FIELDS, _KEY, _VALUE = 1, 2, 1, 2


def encode_parts(
    value: Any, type: ValueType | None = None, *, field: str = "", limit: int = MAX_FRAME_BYTES
) -> Encoded:
    """Like `encode`; media and tensors over 64 KiB stay where they are, as parts of their own."""
    if value.__class__ is str or (least := least_bytes(value)) <= BIG_BYTES:
        return encode(value, type, field=field, limit=limit)
    refuse_oversized(least, field, limit)
    writer = Writer()
    _write(writer, value, type, field)
    return writer.parts


def decode_payload(payload: Data | Buffer, type: ValueType | None = None, *, field: str = "") -> Any:
    """Like `decode`; media and tensors over 64 KiB are views of the payload, which stays as long as they do."""
    if isinstance(payload, bytes):
        return decode(payload, type, field=field)
    view = memoryview(payload)
    try:
        return _read(view, type, field)
    except (DamagedError, DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{len(view)} bytes are no serialized Value",
            field=field,
            cause=str(error),
            cure="send omniflow.v1.Value",
        ) from error


def _write(writer: Writer, value: Any, type: ValueType | None, field: str) -> None:
    if least_bytes(value) <= BIG_BYTES or isinstance(value, str | set | frozenset):
        writer.add(to_message(value, type, field=field).SerializeToString())
        return
    if type is not None:
        check(value, type, field=field)
    match value:
        case Image():
            head = value_pb2.Image(format=value.format, width=value.width, height=value.height)
            _write_media(writer, _IMAGE, head.SerializeToString(), value.data)
        case Audio():
            encoding, rate, channels = ENCODINGS[value.encoding], value.sample_rate, value.channels
            sound = value_pb2.Audio(encoding=encoding, sample_rate=rate, channels=channels)
            _write_media(writer, _AUDIO, sound.SerializeToString(), value.data)
        case Video():
            _write_media(writer, _VIDEO, value_pb2.Video(format=value.format).SerializeToString(), value.data)
        case Tensor():
            tensor = value_pb2.Tensor(dtype=value.dtype, shape=value.shape)
            _write_media(writer, _TENSOR, tensor.SerializeToString(), value.data)
        case list() | tuple():
            item = type.item if type is not None else None
            whole = writer.open(_LIST)
            for index, each in enumerate(value):
                part = writer.open(_ITEMS)
                _write(writer, each, item, f"{field}[{index}]")
                writer.close(part)
            writer.close(whole)
        case _:
            _write_record(writer, value, type, field)


def _write_media(writer: Writer, kind: int, head: bytes, data: Data) -> None:
    whole = writer.open(kind)
    writer.add(head)
    writer.data(_DATA[kind], data, _PADDING.get(kind))
    writer.close(whole)


def _write_record(writer: Writer, value: Any, type: ValueType | None, field: str) -> None:
    whole = writer.open(_RECORD)
    writer.add(value_pb2.Record(name=record_name(value)).SerializeToString())
    for name, member, kind, place in members_of(value, type, field):
        entry = writer.open(_FIELDS)
        writer.data(_KEY, name.encode())
        part = writer.open(_VALUE)
        _write(writer, member, kind, place)
        writer.close(part)
        writer.close(entry)
    writer.close(whole)


def _read(message: memoryview, type: ValueType | None, field: str) -> Any:
    if len(message) <= BIG_BYTES:
        return from_message(value_pb2.Value.FromString(bytes(message)), type, field=field)
    number, content = 0, message[:0]
    for each, found, _ in fields(message):
        # Of several kinds the last one counts; what is no kind is a frame's state.
        if each in _KINDS and found is not None:
            number, content = each, found
    if number in _DATA or number in (_RECORD, _LIST):
        require_kind(_KINDS[number], type, field)
    match number:
        case _ if number in _DATA:
            return _read_media(number, *split(content, _DATA[number]), field)
        case _ if number == _LIST:
            item = type.item if type is not None else None
            items = (found for each, found, _ in fields(content) if each == _ITEMS and found is not None)
            return listed([_read(each, item, f"{field}[{index}]") for index, each in enumerate(items)], type)
        case _ if number == _RECORD:
            return _read_record(content, type, field)
        case _:
            return decode(bytes(message), type, field=field)


def _read_media(number: int, data: memoryview, head: bytes, field: str) -> Any:
    # What is little is not worth keeping a whole payload for.
    content = bytes(data) if len(data) <= BIG_BYTES else data
    match number:
        case _ if number == _IMAGE:
            return Image.from_header(content, origin=field)
        case _ if number == _AUDIO:
            return audio_from(value_pb2.Audio.FromString(head), content, field)
        case _ if number == _VIDEO:
            return Video.from_bytes(content, origin=field)
        case _:
            return tensor_from(value_pb2.Tensor.FromString(head), content, field)


def _read_record(content: memoryview, type: ValueType | None, field: str) -> Any:
    name, members = "", {}
    for number, found, whole in fields(content):
        if number == _FIELDS and found is not None:
            value, rest = split(found, _VALUE)
            # The map's entry without its value: a record's field that is called as it is.
            members[_key(rest)] = value
        elif number == 1:
            name = value_pb2.Record.FromString(bytes(whole)).name
    if type is None:
        return AnyRecord(name, {key: _read(value, None, key) for key, value in members.items()})
    return record_from(name, members, lambda key, kind, place: _read(members[key], kind, place), type, field)


def _key(entry: bytes) -> str:
    key, _ = split(memoryview(entry), _KEY)
    return str(key, "utf-8")
