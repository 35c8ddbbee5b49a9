"""Records: several values under one name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_RECORDS: set[type] = set()


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass whose fields are values: media, other records, lists, str, int, float, bool, or None.

    A record is one frame. When a field is a `Stream`, it can only be what a method returns: its fields are then ports.
    """
    made = dataclass(frozen=True)(cls)
    _RECORDS.add(made)
    return made


def is_record(candidate: object) -> bool:
    return isinstance(candidate, type) and candidate in _RECORDS


@dataclass(frozen=True, slots=True)
class AnyRecord:
    """A record as it came off the wire, where the reader does not have its class."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
