"""A symbol stands for a value that does not exist yet. It can be passed on, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Never

from omniflow.errors import Problem, Source
from omniflow.flow import places
from omniflow.flow.region import Only, Origin, Region
from omniflow.types import Kind, ValueType


class SymbolMisused(Exception):  # noqa: N818  internal: it carries a Problem to the recorder
    """Python asked a symbol for its value."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.render())
        self.problem = problem


@dataclass(frozen=True, slots=True)
class SymbolView:
    """What the recorder sees of a symbol.

    `trace`: the recording it belongs to; `origin`: where it comes from, None for one that stands for a mistake already
    reported; `maybe`: it may be closed instead; `only`: the branches, by choice, without which it never comes.
    """

    trace: object
    origin: Origin | None
    type: ValueType | None
    label: str
    source: Source
    maybe: bool
    region: Region | None = None
    only: Only = field(default_factory=dict)


class Symbol:
    """A value to come."""

    __slots__ = ("_view",)

    def __init__(self, seen: SymbolView) -> None:
        self._view = seen

    def __repr__(self) -> str:
        return f"<{self._view.label}: {self._view.type}>"

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._view.origin is None:
            return self
        type = self._view.type
        if type is not None and type.kind is Kind.RECORD and any(each.name == name for each in type.fields):
            self._refuse(
                "field-of-record",
                f"reads `.{name}`",
                f"declare {type.record} as a NamedTuple: its fields then travel each on its own; or pass the whole "
                "record to a role",
            )
        self._refuse(
            "attribute-of-symbol",
            f"reads `.{name}`",
            "let a role do it; a method has several outputs when it returns a NamedTuple",
        )

    def __bool__(self) -> bool:
        self._refuse(
            "if-on-symbol",
            "is tested (`if`, `and`, `or`, `not`, `while`)",
            "branches are recorded, not run: route(choice, name=lambda: ...) runs one by a role's choice; an input "
            "that is `T | None` runs its nodes only when it came; any_of(a, b) takes whichever comes",
        )

    def __iter__(self) -> Never:
        stream = self._view.type is not None and self._view.type.stream
        self._refuse(
            "iterated-symbol",
            "is iterated",
            "write each(...) around it: `collect(role.method(item) for item in each(stream))`"
            if stream
            else "pass it whole to a role; each(...) goes over a Stream[...]",
        )

    def __next__(self) -> Never:
        self.__iter__()

    def __eq__(self, other: object) -> bool:
        self._refuse(
            "compared-symbol", "is compared", "let a role compare and return a Choice, and route(choice, ...) by that"
        )

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
    __neg__ = __floordiv__ = __pow__ = __index__ = _computed

    def _refuse(self, code: str, what: str, cure: str) -> Never:
        described = "a value" if self._view.type is None else self._view.type.required().one
        raise SymbolMisused(
            Problem(
                code,
                f"{self._view.label} {what}, but it stands for {described} that exists only when a job runs",
                cure,
                places.caller(),
            )
        )


class MistakenSymbol(Symbol):
    """Stands for what a reported mistake would have made: accepted everywhere, so that it's reported once."""

    __slots__ = ()

    # A method that does not exist is called nevertheless.
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self


class ParameterSymbol(Symbol):
    """A parameter of the flow itself: goes where a role's method takes one, and nowhere else."""

    __slots__ = ()


def view(symbol: Symbol) -> SymbolView:
    return symbol._view


def origins_of(symbols: Iterable[Symbol]) -> list[Origin]:
    """Where they come from; those that stand for mistakes come from nowhere."""
    return [origin for symbol in symbols if (origin := view(symbol).origin) is not None]
