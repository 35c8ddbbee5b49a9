"""A symbol stands for a value that does not exist yet. It can be passed on, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Never

from omniflow.errors import Problem, Source
from omniflow.flow import places
from omniflow.types import ValueType


@dataclass(frozen=True, slots=True)
class Origin:
    """One end that frames come from: an input of the flow (`node` is None) or an output of a node, by index."""

    node: int | None
    port: int


class SymbolMisused(Exception):  # noqa: N818  internal: it carries a Problem to the recorder
    """Python asked a symbol for its value."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.render())
        self.problem = problem


class Symbol:
    """A value to come.

    `origins`: where it comes from; several for `any_of`, none for one that stands for a mistake already reported.
    `maybe`: it may be closed instead. `trace`: the recording it belongs to.
    """

    __slots__ = ("_label", "_maybe", "_origins", "_source", "_trace", "_type")

    def __init__(
        self,
        trace: object,
        origins: tuple[Origin, ...],
        type: ValueType | None,
        label: str,
        source: Source,
        maybe: bool,
    ) -> None:
        self._trace = trace
        self._origins = origins
        self._type = type
        self._label = label
        self._source = source
        self._maybe = maybe

    def __repr__(self) -> str:
        return f"<{self._label}: {self._type}>"

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._origins:
            return self
        self._refuse(
            "attribute-of-symbol",
            f"reads `.{name}`",
            "let a role do it; a method has several outputs when it returns a NamedTuple",
        )

    def __bool__(self) -> bool:
        self._refuse(
            "if-on-symbol",
            "is tested (`if`, `and`, `or`, `not`, `while`)",
            "branches are recorded, not run: make an input optional (`T | None`) and its nodes run only when it came, "
            "or join alternatives with any_of(a, b); `route` is not supported yet",
        )

    def __iter__(self) -> Never:
        self._refuse(
            "iterated-symbol",
            "is iterated",
            "pass it whole to a role that takes Stream[...] or list[...]; `each` (one node per item) is not supported",
        )

    def __next__(self) -> Never:
        self.__iter__()

    def __eq__(self, other: object) -> bool:
        self._refuse("compared-symbol", "is compared", "let a role compare; `route` is not supported yet")

    def __str__(self) -> str:
        self._refuse("formatted-symbol", "is made a string", "pass it as an input of its own, the role can join texts")

    def __format__(self, spec: str) -> str:
        return str(self)

    def _computed(self, *_: object) -> Never:
        self._refuse("computed-symbol", "is computed with", "let a role do it: a flow only says what runs when")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __mod__ = __or__ = __and__ = _computed
    __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = __contains__ = __len__ = __call__ = __int__ = __float__ = (
        _computed
    )

    def _refuse(self, code: str, what: str, cure: str) -> Never:
        described = "a value" if self._type is None else self._type.required().one
        raise SymbolMisused(
            Problem(
                code,
                f"{self._label} {what}, but it stands for {described} that exists only when a job runs",
                cure,
                places.caller(),
            )
        )


@dataclass(frozen=True, slots=True)
class SymbolView:
    """What the recorder sees of a symbol."""

    trace: object
    origins: tuple[Origin, ...]
    type: ValueType | None
    label: str
    source: Source
    maybe: bool


def view(symbol: Symbol) -> SymbolView:
    return SymbolView(symbol._trace, symbol._origins, symbol._type, symbol._label, symbol._source, symbol._maybe)
