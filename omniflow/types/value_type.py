"""The type of a port or parameter, on this side of the wire."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from omniflow.v1 import value_pb2


class Kind(enum.IntEnum):
    """`omniflow.v1.Kind`."""

    TEXT = value_pb2.KIND_TEXT
    IMAGE = value_pb2.KIND_IMAGE
    AUDIO = value_pb2.KIND_AUDIO
    VIDEO = value_pb2.KIND_VIDEO
    TENSOR = value_pb2.KIND_TENSOR
    RECORD = value_pb2.KIND_RECORD
    LIST = value_pb2.KIND_LIST
    BOOLEAN = value_pb2.KIND_BOOLEAN
    INTEGER = value_pb2.KIND_INTEGER
    REAL = value_pb2.KIND_REAL


_WORDS = {Kind.BOOLEAN: "bool", Kind.INTEGER: "int", Kind.REAL: "float"}


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field of a record."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Branches:
    """What a Choice may name: `names`, or anything when there are none; `several`: a set of them, as in Choices."""

    names: tuple[str, ...] = ()
    several: bool = False

    def __str__(self) -> str:
        return f"{'Choices' if self.several else 'Choice'}[{' | '.join(self.names) or 'str'}]"


@dataclass(frozen=True, slots=True)
class ValueType:
    """What a port carries or a parameter takes.

    `plain`: written with Python's own str, int, float or bool, hence a parameter; `python`: the record class, or
    `tuple` or `frozenset` for a list that is to arrive as one; `branches`: of a Choice, which travels as Text, or of
    Choices, a list of Text. These are unknown off the wire and count for nothing in comparisons.
    """

    kind: Kind
    stream: bool = False
    optional: bool = False
    record: str = ""
    fields: tuple[FieldType, ...] = ()
    item: ValueType | None = None
    plain: bool = field(default=False, compare=False)
    python: type | None = field(default=None, compare=False)
    branches: Branches | None = field(default=None, compare=False)

    def __str__(self) -> str:
        word = self.word
        if self.stream:
            word = f"Stream[{word}]"
        return f"{word} | None" if self.optional else word

    @property
    def word(self) -> str:
        """What one frame of it is called."""
        if self.branches is not None:
            return str(self.branches)
        if self.kind is Kind.RECORD:
            return self.record
        if self.kind is Kind.LIST:
            return f"list[{self.item}]"
        if self.plain and self.kind is Kind.TEXT:
            return "str"
        return _WORDS.get(self.kind, self.kind.name.capitalize())

    @property
    def one(self) -> str:
        """With its article: "a Text", "an Image"."""
        word = str(self)
        return f"an {word}" if word[0] in "AEIOUaeiou" else f"a {word}"

    def required(self) -> ValueType:
        """The same without `| None`."""
        return replace(self, optional=False) if self.optional else self

    def frame(self) -> ValueType:
        """The type of one frame of it."""
        return replace(self, optional=False, stream=False) if self.optional or self.stream else self

    def streamed(self) -> ValueType:
        """A stream of frames of this type."""
        return replace(self, optional=False, stream=True)

    def listed(self) -> ValueType:
        """A list of frames of this type."""
        return ValueType(Kind.LIST, item=replace(self.frame(), plain=False))

    def accepts(self, given: ValueType) -> bool:
        """Whether an output of type `given` may feed an input of this one.

        `| None` counts for nothing here: a closed output closes the input that it feeds (rules 1 and 2).
        """
        return self.required() == given.required()

    def to_proto(self) -> value_pb2.Type:
        return value_pb2.Type(
            kind=value_pb2.Kind.ValueType(self.kind),
            stream=self.stream,
            optional=self.optional,
            record=self.record,
            fields=[value_pb2.Field(name=each.name, type=each.type.to_proto()) for each in self.fields],
            item=self.item.to_proto() if self.item is not None else None,
        )

    @classmethod
    def from_proto(cls, message: value_pb2.Type) -> ValueType:
        """Raises `ValueError` for a kind that this version does not know."""
        return cls(
            Kind(message.kind),
            stream=message.stream,
            optional=message.optional,
            record=message.record,
            fields=tuple(FieldType(each.name, cls.from_proto(each.type)) for each in message.fields),
            item=cls.from_proto(message.item) if message.HasField("item") else None,
        )
