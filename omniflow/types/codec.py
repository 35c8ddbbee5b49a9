"""Values to and from serialized `omniflow.v1.Value`, checked against a type on both ways. No pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from google.protobuf.message import DecodeError

from omniflow.errors import InvalidArgument, TooLarge
from omniflow.types.audio import Audio
from omniflow.types.buffers import Data
from omniflow.types.image import Image
from omniflow.types.limits import MAX_FRAME_BYTES
from omniflow.types.record import AnyRecord, is_record
from omniflow.types.tensor import Tensor
from omniflow.types.value_type import Kind, ValueType
from omniflow.types.video import Video
from omniflow.v1 import value_pb2

T = TypeVar("T")

_TEXT = Kind.TEXT  # looked up once: an enum's members are found by a slow path
_TEXT_TAG = 0x0A  # field 1, length-delimited: Value.text
_SHORT = 0x4000  # bytes from which on a length takes more than two
ENCODINGS: dict[str, value_pb2.Audio.Encoding.ValueType] = {
    "pcm_s16": value_pb2.Audio.PCM_S16,
    "pcm_f32": value_pb2.Audio.PCM_F32,
}
_ENCODING_NAMES: dict[int, Literal["pcm_s16", "pcm_f32"]] = {
    value_pb2.Audio.PCM_S16: "pcm_s16",
    value_pb2.Audio.PCM_F32: "pcm_f32",
}
_PYTHON: dict[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.IMAGE: (Image,),
    Kind.AUDIO: (Audio,),
    Kind.VIDEO: (Video,),
    Kind.TENSOR: (Tensor,),
    Kind.BOOLEAN: (bool,),
    Kind.INTEGER: (int,),
    Kind.REAL: (float, int),
    Kind.LIST: (list, tuple, frozenset, set),
}


def encode(value: Any, type: ValueType | None = None, *, field: str = "", limit: int = MAX_FRAME_BYTES) -> bytes:
    """One frame's payload.

    Raises `InvalidArgument`, naming `field`, when the value is not of `type` (where given), and `TooLarge`, before
    anything is copied, when it has more than `limit` bytes.
    """
    if value.__class__ is str and (type is None or type.kind is _TEXT):
        return _encode_text(value, field, limit)
    refuse_oversized(least_bytes(value), field, limit)
    return to_message(value, type, field=field).SerializeToString()


def decode(payload: bytes, type: ValueType | None = None, *, field: str = "") -> Any:
    """The value of one frame's payload; media check themselves. Without a `type`, records come as `AnyRecord`.

    Raises `InvalidArgument`, naming `field`, when the payload is damaged or not of `type`.
    """
    if type is None or type.kind is _TEXT:
        text = _decode_text(payload, field)
        if text is not None:
            return text
    try:
        message = value_pb2.Value.FromString(payload)
    except DecodeError as error:
        raise InvalidArgument(
            f"{len(payload)} bytes are no serialized Value",
            field=field,
            cause=str(error),
            cure="send omniflow.v1.Value",
        ) from error
    return from_message(message, type, field=field)


def decode_texts(payloads: Sequence[bytes], type: ValueType, *, field: str = "") -> list[Any]:
    """`decode` of each payload of a stream of texts: they come in batches, and are most of the traffic."""
    texts = [_decode_text(payload, field) for payload in payloads]
    return [decode(payloads[i], type, field=field) if text is None else text for i, text in enumerate(texts)]


def short_text(text: str) -> bytes | None:
    """The payload of a text, as protobuf would write it, without building a message: texts are most of the traffic.

    None leaves it to `encode`: it is long, or no text that can be sent.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return None
    size = len(data)
    if size < 0x80:
        return bytes((_TEXT_TAG, size)) + data
    if size < _SHORT:
        return bytes((_TEXT_TAG, size & 0x7F | 0x80, size >> 7)) + data
    return None


def check(value: Any, type: ValueType, *, field: str = "") -> None:
    """Raises `InvalidArgument`, naming `field`, unless `value`, by its outermost layer, is of `type`."""
    if value is None:
        if type.optional:
            return
        raise InvalidArgument(f"wants {type}, got None", field=field, cure=f"pass {type.frame().one}")
    if type.kind is Kind.RECORD:
        wrong = not (isinstance(value, AnyRecord) or is_record(value.__class__)) or record_name(value) != type.record
    else:
        wrong = not isinstance(value, _PYTHON[type.kind]) or (value.__class__ is bool and type.kind is not Kind.BOOLEAN)
        # A set has no order, so it is a list only where order means nothing: as Choices.
        wrong = wrong or (isinstance(value, frozenset | set) and type.python is not frozenset)
    if wrong:
        raise InvalidArgument(
            f"wants {type.frame()}, got {value.__class__.__name__}", field=field, cure=f"pass {type.frame().one}"
        )


def to_message(value: Any, type: ValueType | None = None, *, field: str = "") -> value_pb2.Value:
    """Like `encode`, before serialization."""
    if type is not None:
        check(value, type, field=field)
    match value:
        case bool():
            return value_pb2.Value(boolean=value)
        case str():
            _checked_text(value, field)
            return value_pb2.Value(text=value)
        case int() if type is not None and type.kind is Kind.REAL:
            return value_pb2.Value(real=float(value))
        case int():
            if not -(2**63) <= value < 2**63:
                raise InvalidArgument(f"{value} does not fit 64 bits", field=field, cure="pass a smaller integer")
            return value_pb2.Value(integer=value)
        case float():
            return value_pb2.Value(real=value)
        case Image():
            return value_pb2.Value(
                image=value_pb2.Image(
                    data=bytes(value.data), format=value.format, width=value.width, height=value.height
                )
            )
        case Audio():
            return value_pb2.Value(
                audio=value_pb2.Audio(
                    data=bytes(value.data),
                    encoding=ENCODINGS[value.encoding],
                    sample_rate=value.sample_rate,
                    channels=value.channels,
                )
            )
        case Video():
            return value_pb2.Value(video=value_pb2.Video(data=bytes(value.data), format=value.format))
        case Tensor():
            return value_pb2.Value(
                tensor=value_pb2.Tensor(dtype=value.dtype, shape=value.shape, data=bytes(value.data))
            )
        case set() | frozenset() if type is not None:
            return to_message(sorted(value, key=str), dataclasses.replace(type, python=None), field=field)
        case list() | tuple():
            item = type.item if type is not None else None
            return value_pb2.Value(
                list=value_pb2.List(
                    items=[to_message(each, item, field=f"{field}[{index}]") for index, each in enumerate(value)]
                )
            )
        case _:
            return value_pb2.Value(record=_record_to_message(value, type, field))


def from_message(message: value_pb2.Value, type: ValueType | None = None, *, field: str = "") -> Any:
    """Like `decode`, after parsing."""
    kind = message.WhichOneof("kind")
    require_kind(kind, type, field)
    match kind:
        case "text":
            return message.text
        case "boolean":
            return message.boolean
        case "integer":
            return float(message.integer) if type is not None and type.kind is Kind.REAL else message.integer
        case "real":
            return message.real
        case "image":
            return Image.from_header(message.image.data, origin=field)
        case "audio":
            return audio_from(message.audio, message.audio.data, field)
        case "video":
            return Video.from_bytes(message.video.data, origin=field)
        case "tensor":
            return tensor_from(message.tensor, message.tensor.data, field)
        case "list":
            item = type.item if type is not None else None
            items = [
                from_message(each, item, field=f"{field}[{index}]") for index, each in enumerate(message.list.items)
            ]
            return listed(items, type)
        case "record":
            return _record_from_message(message.record, type, field)
        case _:
            raise InvalidArgument(
                "an empty value, or one of a later version", field=field, cure="set one kind of Value"
            )


def _encode_text(text: str, field: str, limit: int) -> bytes:
    refuse_oversized(len(text), field, limit)
    payload = short_text(text) if len(text) < _SHORT else None
    if payload is None:
        refuse_oversized(len(_checked_text(text, field)), field, limit)
        return value_pb2.Value(text=text).SerializeToString()
    refuse_oversized(len(payload), field, limit)
    return payload


def refuse_oversized(size: int, field: str, limit: int) -> None:
    """Raises `TooLarge` for a frame that has at least `size` bytes."""
    if size > limit:
        raise TooLarge(
            f"{size:,} bytes or more are over the limit of {limit:,} for one frame",
            field=field,
            cure="send it in parts: as a stream, or as several values",
        )


def least_bytes(value: Any) -> int:
    """No more than its payload will have, told without a look at the bytes."""
    match value:
        case str():
            return len(value)
        case Image() | Audio() | Video() | Tensor():
            return len(value.data)
        case list() | tuple() | set() | frozenset():
            return sum(map(least_bytes, value))
        case AnyRecord():
            return sum(map(least_bytes, value.fields.values()))
        case _ if is_record(value.__class__):
            return sum(least_bytes(getattr(value, each.name)) for each in dataclasses.fields(value))
        case _:
            return 0


def _decode_text(payload: bytes, field: str) -> str | None:
    """The text when the payload is one text field and nothing else; None leaves it to protobuf."""
    length = len(payload)
    if length < 2 or payload[0] != _TEXT_TAG:
        return None
    size, start = payload[1], 2
    if size >= 0x80:
        if length < 3 or payload[2] >= 0x80:
            return None
        size, start = size & 0x7F | payload[2] << 7, 3
    if length != start + size:
        return None
    try:
        return payload[start:].decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument("the text is not UTF-8", field=field, cause=str(error), cure="send UTF-8") from error


def _checked_text(text: str, field: str) -> bytes:
    """Its UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "the text holds half a surrogate pair",
            field=field,
            cause=str(error),
            cure="decode it with errors='replace'",
        ) from error


def require_kind(kind: str | None, type: ValueType | None, field: str) -> None:
    """Raises `InvalidArgument` unless a value of this kind of `Value.kind` is of `type`."""
    if type is not None and kind != type.kind.name.lower() and not (type.kind is Kind.REAL and kind == "integer"):
        raise InvalidArgument(
            f"wants {type.frame()}, got {kind or 'an empty value'}", field=field, cure=f"send {type.frame().one}"
        )


def listed(items: list[Any], type: ValueType | None) -> Any:
    """Items as the list, tuple or set that `type` asks for."""
    return type.python(items) if type is not None and type.python is not None else items


def tensor_from(message: value_pb2.Tensor, data: Data, field: str) -> Tensor:
    """A tensor whose bytes are `data`, and everything else as `message` says."""
    return _named(field, lambda: Tensor(message.dtype, tuple(message.shape), data))


def audio_from(message: value_pb2.Audio, data: Data, field: str) -> Audio:
    """The same of a sound."""
    encoding = _ENCODING_NAMES.get(message.encoding)
    if encoding is None:
        raise InvalidArgument("the sound has no known encoding", field=field, cure="set PCM_S16 or PCM_F32")
    return _named(field, lambda: Audio(data, encoding, message.sample_rate, message.channels))


def _named(field: str, make: Callable[[], T]) -> T:
    """What `make` makes; its complaint is said of `field`, the input, instead of a part of the value."""
    try:
        return make()
    except InvalidArgument as error:
        error.field = field or error.field
        raise


def record_name(value: Any) -> str:
    """What its record is called."""
    return value.name if isinstance(value, AnyRecord) else value.__class__.__name__


def inside(field: str, name: str) -> str:
    """The place of a record's field."""
    return f"{field}.{name}" if field else name


def members_of(value: Any, type: ValueType | None, field: str) -> Iterator[tuple[str, Any, ValueType | None, str]]:
    """(name, value, type if known, place) of each field of a record that has something."""
    types = {each.name: each.type for each in type.fields} if type is not None else {}
    if isinstance(value, AnyRecord):
        members: Mapping[str, Any] = value.fields
    elif is_record(value.__class__):
        members = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    else:
        raise InvalidArgument(
            f"a {value.__class__.__name__} cannot travel",
            field=field,
            cure="pass a media value, a @record or a list of these",
        )
    for name, member in members.items():
        kind = types.get(name)
        if member is not None or not (kind is None or kind.optional):
            yield name, member, kind, inside(field, name)


def _record_to_message(value: Any, type: ValueType | None, field: str) -> value_pb2.Record:
    message = value_pb2.Record(name=record_name(value))
    for name, member, kind, place in members_of(value, type, field):
        message.fields[name].CopyFrom(to_message(member, kind, field=place))
    return message


def _record_from_message(message: value_pb2.Record, type: ValueType | None, field: str) -> Any:
    if type is None:
        return AnyRecord(message.name, {name: from_message(each, field=name) for name, each in message.fields.items()})
    return record_from(
        message.name,
        message.fields.keys(),
        lambda name, type, place: from_message(message.fields[name], type, field=place),
        type,
        field,
    )


def record_from(
    name: str,
    present: Container[str],
    member: Callable[[str, ValueType, str], Any],
    type: ValueType,
    field: str,
) -> Any:
    """The record of `type` whose fields `member` makes of a name, its type and its place. Raises `InvalidArgument`."""
    if name != type.record:
        raise InvalidArgument(f"wants a {type.record}, got a {name}", field=field, cure=f"send a {type.record}")
    members: dict[str, Any] = {}
    for each in type.fields:
        place = inside(field, each.name)
        if each.name in present:
            members[each.name] = member(each.name, each.type, place)
        elif each.type.optional:
            members[each.name] = None
        else:
            raise InvalidArgument(
                f"the {type.record} lacks `{each.name}`", field=place, cure=f"set it to {each.type.one}"
            )
    return type.python(**members) if type.python is not None else AnyRecord(name, members)
