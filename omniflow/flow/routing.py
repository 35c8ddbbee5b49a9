"""`any_of` and `route`: alternatives by arrival, and branches by a role's choice."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any, TypeVar, cast, overload

from omniflow.errors import Source
from omniflow.flow.admission import admit, recording, settle
from omniflow.flow.control import AnyOf, Route
from omniflow.flow.fanning import merged, same_type
from omniflow.flow.region import Region, both, either
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.trace import Trace
from omniflow.roles.description import bundle_values, is_bundle
from omniflow.types import Branches, Stream

T = TypeVar("T")


def any_of(first: T, second: T, *more: T) -> T:
    """Whichever comes first: `tts.speak(any_of(answer, apology))` runs once, on the first that arrives.

    All must have one type. If several are there at once, the first declared wins. Nothing comes when none does.
    """
    trace, source = recording("any_of")
    symbols = [admit(trace, value, source, "any_of(...)") for value in (first, second, *more)]
    known = [symbol for symbol in symbols if symbol is not None and view(symbol).origin is not None]
    if len(known) < len(symbols) or not same_type(trace, known, source, "any_of"):
        return cast(T, trace.mistaken("any_of(...)", source))
    label = f"any_of({', '.join(view(symbol).label for symbol in known)})"
    maybe = all(view(symbol).maybe for symbol in known)
    named = {f"value{index}": symbol for index, symbol in enumerate(known)}
    return cast(T, _first_of(trace, AnyOf(), named, label, source, maybe))


def given(value: T | None) -> T:
    """An optional value where a method requires one: the node runs only when it came.

    It changes nothing in the graph; type checkers see `T`: `ocr.read(given(image))`.
    """
    return cast(T, value)


@overload
def route(choice: str, branches: Mapping[str, Callable[[], T]], /) -> T: ...
@overload
def route(choice: str, /, **named: Callable[[], T]) -> T: ...
@overload
def route(choice: Set[str], branches: Mapping[str, Callable[[], Stream[T]]], /) -> Stream[T]: ...
@overload
def route(choice: Set[str], /, **named: Callable[[], Stream[T]]) -> Stream[T]: ...
@overload
def route(choice: Set[str], branches: Mapping[str, Callable[[], T]], /) -> Stream[T]: ...
@overload
def route(choice: Set[str], /, **named: Callable[[], T]) -> Stream[T]: ...
def route(choice: Any, branches: Mapping[str, Callable[[], Any]] | None = None, /, **named: Callable[[], Any]) -> Any:
    """Runs the branch that a role chose: `route(plan.kind, text=lambda: writer.write(plan), image=lambda: ...)`.

    `choice`: an output that a method declares as `Choice[Literal["text", "image"]]`: exactly one branch runs, and what
    it returns is returned; `lambda: None` makes nothing. With `Choices` a set of branches runs, and what they make is a
    stream in order of arrival. Every branch is recorded, once, with what it calls.
    """
    trace, source = recording("route")
    functions = {**(branches or {}), **named}
    symbol = admit(trace, choice, source, "the choice of route(...)")
    kind = _checked_choice(trace, symbol, functions, source) if symbol is not None else None
    if symbol is None or kind is None:
        return trace.mistaken("route(...)", source)
    return _Router(trace, symbol, kind, source).run(functions)


class _Router:
    """One route: its node, its branches, and what comes of them."""

    def __init__(self, trace: Trace, choice: Symbol, kind: Branches, source: Source) -> None:
        self._trace = trace
        self._choice = choice
        self._kind = kind
        self._source = source

    def run(self, functions: dict[str, Callable[[], Any]]) -> Any:
        trace, seen = self._trace, view(self._choice)
        control = Route(tuple(functions), not self._kind.several)
        node = trace.add_control(control, [("choice", self._choice)], self._source, trace.region)
        made = {}
        for index, (name, function) in enumerate(functions.items()):
            label = f"branch `{name}` of `{trace.nodes[node].name}`"
            # Branches of Choices don't exclude each other.
            chosen = {} if self._kind.several or seen.origin is None else {seen.origin: frozenset([name])}
            only = both(trace.nodes[node].only, chosen)
            region = Region("branch", label, self._source, trace.region, node, index, only)
            type = seen.type.required() if seen.type else None
            trace.output(node, type, label, maybe=True, only=only)
            with trace.entered(region):
                made[name] = self._branch(function, label)
        return self._joined(made)

    def _branch(self, function: Callable[[], Any], label: str) -> Any:
        """What the branch returns, each value made in it or let in by it; None for nothing."""
        value = settle(self._trace, function(), self._source)
        if value is None:
            return None
        if is_bundle(value):
            return type(value)(**{name: self._lent(each, label) for name, each in bundle_values(value).items()})
        return self._lent(value, label)

    def _lent(self, value: Any, label: str) -> Symbol | None:
        if value is None:
            return None
        symbol = admit(self._trace, value, self._source, f"what {label} returns")
        if symbol is None:
            return self._trace.mistaken(label, self._source)
        seen = view(symbol)
        if seen.origin is None or (seen.region is not None and seen.region.within(self._trace.region)):
            return symbol
        # From outside: it may come out of the branch only when that is taken.
        return _first_of(self._trace, AnyOf(chosen=True), {"value": symbol}, seen.label, self._source, seen.maybe)

    def _joined(self, made: dict[str, Any]) -> Any:
        shapes = {name: type(value) for name, value in made.items() if value is not None}
        bundles = {shape for shape in shapes.values() if not issubclass(shape, Symbol)}
        if not shapes:
            self._report("empty-route", "no branch of route(...) returns anything", "return what the branches make")
            return self._wrong()
        if not bundles:
            return self._join(made, "route(...)")
        if self._kind.several:
            self._report(
                "bundle-of-choices",
                f"the branches of a route over Choices are merged into one stream, and {bundles.pop().__name__} is "
                "several values",
                "return one value from each branch, or a @record, which is one value",
            )
            return self._wrong()
        if len(set(shapes.values())) > 1:
            listed = ", ".join(
                f"`{name}` {'one value' if issubclass(shape, Symbol) else shape.__name__}"
                for name, shape in shapes.items()
            )
            self._report(
                "branches-differ",
                f"the branches of route(...) return different things: {listed}",
                "return the same NamedTuple, or one value of the same type, from every branch",
            )
            return self._wrong()
        bundle = bundles.pop()
        parts = {name: None if value is None else bundle_values(value) for name, value in made.items()}
        names = next(part for part in parts.values() if part is not None)
        return bundle(
            **{
                name: self._join(
                    {branch: None if part is None else part[name] for branch, part in parts.items()},
                    f"route(...).{name}",
                )
                for name in names
            }
        )

    def _join(self, made: dict[str, Symbol | None], label: str) -> Symbol | None:
        """One value of what the branches make; None where no branch makes any."""
        named = {name: symbol for name, symbol in made.items() if symbol is not None}
        known = list(named.values())
        if not known:
            return None
        if any(view(symbol).origin is None for symbol in known):
            return self._wrong()
        if self._kind.several:
            return self._merged(known)
        if not same_type(self._trace, known, self._source, "route"):
            return self._wrong()
        # The choice is always one of the branches, so something comes unless a branch makes nothing.
        maybe = view(self._choice).maybe or len(known) < len(made) or any(view(symbol).maybe for symbol in known)
        return _first_of(self._trace, AnyOf(chosen=True), named, label, self._source, maybe)

    def _merged(self, known: list[Symbol]) -> Symbol:
        if len(known) == 1:
            self._report(
                "one-branch",
                "only one branch of a route over Choices returns something, so there is nothing to merge",
                "let the role return a Choice, with `lambda: None` for the other branch",
            )
            return self._wrong()
        seen = view(merged(self._trace, list(known), self._source, "merge"))
        # The set may be empty, and then nothing comes.
        return Symbol(replace(seen, maybe=True))

    def _wrong(self) -> Symbol:
        return self._trace.mistaken("route(...)", self._source)

    def _report(self, code: str, message: str, cure: str) -> None:
        self._trace.problem(code, message, cure, self._source)


def _checked_choice(trace: Trace, choice: Symbol, functions: Mapping[str, Any], source: Source) -> Branches | None:
    """What the choice may name; None once a problem is reported."""
    seen = view(choice)
    if seen.type is None:
        return None
    kind = seen.type.branches
    if kind is None or seen.type.stream:
        trace.problem(
            "not-a-choice",
            f"route(...) goes by a Choice, and {seen.label} is {seen.type.one}",
            'let the role\'s method return it as `Choice[Literal["one", "other"]]` (or `Choices[...]`, a set), perhaps '
            "as one field of a NamedTuple",
            source,
        )
        return None
    wrong = [name for name, function in functions.items() if not callable(function) or isinstance(function, Symbol)]
    for name in wrong:
        trace.problem(
            "branch-without-lambda",
            f"branch `{name}` of route(...) is a value already, so it would be made whatever is chosen",
            f"write `{name}=lambda: ...`: what it calls then runs only when the branch is taken",
            source,
        )
    unknown = [name for name in functions if kind.names and name not in kind.names]
    for name in unknown:
        close = difflib.get_close_matches(name, kind.names, n=1)
        hint = f"did you mean `{close[0]}`? " if close else ""
        listed = ", ".join(f"`{each}`" for each in kind.names)
        trace.problem(
            "unknown-branch",
            f"{seen.label} never chooses `{name}`, so this branch can never run",
            f"{hint}it chooses among {listed}",
            source,
        )
    missing = [name for name in kind.names if name not in functions]
    if missing and not unknown:
        listed = ", ".join(f"`{name}`" for name in missing)
        trace.problem(
            "missing-branch",
            f"{seen.label} may choose {listed}, for which route(...) has no branch: the job would fail (BAD_ROUTE)",
            f"add `{missing[0]}=lambda: ...`; `lambda: None` makes nothing",
            source,
        )
    if not functions:
        trace.problem("empty-route", "route(...) has no branch", "add `name=lambda: ...` for each choice", source)
    return None if wrong or unknown or missing or not functions else kind


def _first_of(
    trace: Trace, control: AnyOf, named: dict[str, Symbol], label: str, source: Source, maybe: bool
) -> Symbol:
    only = either([view(symbol).only for symbol in named.values()])
    node = trace.add_control(control, list(named.items()), source, trace.region, only=only)
    type = view(next(iter(named.values()))).type
    return trace.output(node, type and type.required(), label, maybe=maybe)
