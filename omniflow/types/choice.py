"""What a role decides: which branch of the flow runs next."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Annotated, TypeAlias, TypeVar

B = TypeVar("B", bound=str)


@dataclass(frozen=True, slots=True)
class ChoiceMark:
    """Marks an annotation as a choice; `several`: of a set of branches, instead of exactly one."""

    several: bool = False


# A method that declares `-> Choice[Literal["text", "image"]]` returns one of these names; `Choice[str]` may name any.
Choice: TypeAlias = Annotated[B, ChoiceMark()]

# `-> Choices[Literal["web", "files"]]`: a set of names, perhaps empty.
Choices: TypeAlias = Annotated[Set[B], ChoiceMark(several=True)]
