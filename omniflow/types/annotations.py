"""From what a user writes in a signature to a `ValueType`."""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from dataclasses import replace
from typing import Any

from omniflow.errors import InvalidArgument
from omniflow.types.audio import Audio
from omniflow.types.choice import ChoiceMark
from omniflow.types.image import Image
from omniflow.types.record import is_record
from omniflow.types.stream import Stream
from omniflow.types.tensor import Tensor
from omniflow.types.text import TextMark
from omniflow.types.value_type import Branches, FieldType, Kind, ValueType
from omniflow.types.video import Video

_MEDIA: dict[object, Kind] = {Image: Kind.IMAGE, Audio: Kind.AUDIO, Video: Kind.VIDEO, Tensor: Kind.TENSOR}
_PLAIN: dict[object, Kind] = {str: Kind.TEXT, bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.REAL}
_ITERABLES = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
)
_CURE = (
    "use Text, Image, Audio, Video, Tensor, a @record, list[...] or Stream[...] of these, each perhaps `| None`; "
    "for parameters str, int, float, bool or a list of them"
)


class BadAnnotation(InvalidArgument):
    """An annotation that says nothing about what travels."""


def value_type(annotation: Any) -> ValueType:
    """The type that an annotation, with forward references resolved, stands for. Raises `BadAnnotation`."""
    return _parse(annotation, ())


def has_stream_field(candidate: type) -> bool:
    """Whether a record can't be one frame because one of its fields is a stream."""
    return any(typing.get_origin(_bare(hint)) is Stream for hint in resolve_hints(candidate).values())


def resolve_hints(owner: Any) -> dict[str, Any]:
    """`typing.get_type_hints` that says which name it could not find. Raises `BadAnnotation`."""
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except NameError as error:
        name = getattr(owner, "__qualname__", repr(owner))
        raise BadAnnotation(
            f"an annotation of `{name}` names `{error.name}`, which its module does not define",
            field=name,
            cure="import or define it at the top level of the module (not under TYPE_CHECKING, nor inside a function)",
        ) from error


def _parse(annotation: Any, inside: tuple[type, ...]) -> ValueType:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        if any(isinstance(mark, TextMark) for mark in arguments[1:]):
            return ValueType(Kind.TEXT)
        if choice := next((mark for mark in arguments[1:] if isinstance(mark, ChoiceMark)), None):
            return _choice(arguments[0], choice)
        return _parse(arguments[0], inside)
    if origin in (typing.Union, types.UnionType):
        return _union(annotation, arguments, inside)
    if origin is Stream:
        return _stream(annotation, arguments, inside)
    if origin in (list, collections.abc.Sequence) or (origin is tuple and len(arguments) == 2 and arguments[1] is ...):
        item = _parse(arguments[0], inside)
        if item.stream:
            raise BadAnnotation(f"`{_show(annotation)}`: a list cannot hold streams", cure=_CURE)
        return ValueType(Kind.LIST, item=item, plain=item.plain, python=tuple if origin is tuple else None)
    if annotation in _MEDIA:
        return ValueType(_MEDIA[annotation])
    if annotation in _PLAIN:
        return ValueType(_PLAIN[annotation], plain=True)
    if is_record(annotation):
        return _record(annotation, inside)
    if annotation is Stream or annotation is list:
        raise BadAnnotation(
            f"`{_show(annotation)}` does not say of what", cure=f"write {annotation.__name__}[Text], say"
        )
    if origin in _ITERABLES or annotation in _ITERABLES:
        raise BadAnnotation(f"`{_show(annotation)}` is no type that travels", cure="declare Stream[...] instead")
    raise BadAnnotation(f"`{_show(annotation)}` is no type that travels", cure=_CURE)


def _union(annotation: Any, arguments: tuple[Any, ...], inside: tuple[type, ...]) -> ValueType:
    rest = [argument for argument in arguments if argument is not type(None)]
    if len(rest) != 1 or len(rest) == len(arguments):
        raise BadAnnotation(
            f"`{_show(annotation)}`: a port has one type",
            cure="only `T | None` is a union that travels; else use a @record",
        )
    return replace(_parse(rest[0], inside), optional=True)


def _stream(annotation: Any, arguments: tuple[Any, ...], inside: tuple[type, ...]) -> ValueType:
    item = _parse(arguments[0], inside)
    if item.stream or item.optional:
        raise BadAnnotation(f"`{_show(annotation)}`: the frames of a stream are plain values", cure="write Stream[T]")
    if item.plain:
        raise BadAnnotation(
            f"`{_show(annotation)}`: str, int, float and bool are parameters, they make no frames",
            cure="use Stream[Text], or a @record that holds the numbers",
        )
    return replace(item, stream=True)


def _choice(annotation: Any, mark: ChoiceMark) -> ValueType:
    named = typing.get_args(annotation)[0] if mark.several else annotation
    names = typing.get_args(named) if typing.get_origin(named) is typing.Literal else ()
    word = "Choices" if mark.several else "Choice"
    if not (named is str or (names and all(isinstance(name, str) for name in names))):
        raise BadAnnotation(
            f"`{word}[{_show(named)}]` does not name the branches",
            cure=f'write {word}[Literal["one", "other"]] with the branches\' names, or {word}[str] for any',
        )
    text = ValueType(Kind.TEXT, branches=Branches(tuple(names)))
    if not mark.several:
        return text
    return ValueType(
        Kind.LIST, item=ValueType(Kind.TEXT), python=frozenset, branches=Branches(tuple(names), several=True)
    )


def _record(annotation: type, inside: tuple[type, ...]) -> ValueType:
    if annotation in inside:
        raise BadAnnotation(
            f"record `{annotation.__name__}` contains itself", cure="records are finite: use a list of another one"
        )
    hints = resolve_hints(annotation)
    fields = []
    for each in dataclasses.fields(annotation):
        parsed = _parse(hints[each.name], (*inside, annotation))
        if parsed.stream:
            raise BadAnnotation(
                f"record `{annotation.__name__}` has the stream `{each.name}`, so it cannot be one value",
                cure="return it from a method, where its fields become ports, and pass the fields on one by one",
            )
        fields.append(FieldType(each.name, parsed))
    return ValueType(Kind.RECORD, record=annotation.__name__, fields=tuple(fields), python=annotation)


def _bare(annotation: Any) -> Any:
    """Without `| None`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _show(annotation: Any) -> str:
    return (
        annotation.__name__
        if isinstance(annotation, type) and not typing.get_args(annotation)
        else str(annotation).replace("typing.", "")
    )
