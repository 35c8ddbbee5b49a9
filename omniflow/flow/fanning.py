"""`each` and what closes it: `collect`, `unordered`; streams in lockstep and merged: `zip_streams`, `merge`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast, overload

from omniflow.errors import Source
from omniflow.flow import places
from omniflow.flow.admission import admit, exit_inputs, leaving, plain_item, recording, settle, source_maybe
from omniflow.flow.control import Collect, Each, Merge, Unordered, Zip
from omniflow.flow.region import Region, either
from omniflow.flow.symbol import Symbol, view
from omniflow.flow.trace import Trace
from omniflow.types import Kind, Stream, ValueType

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
T = TypeVar("T")

_COUNT = ValueType(Kind.BOOLEAN, stream=True)


@overload
def each(stream: Stream[T], /) -> Iterator[T]: ...
@overload
def each(first: Stream[A], second: Stream[B], /) -> Iterator[tuple[A, B]]: ...
@overload
def each(first: Stream[A], second: Stream[B], third: Stream[C], /) -> Iterator[tuple[A, B, C]]: ...
def each(*streams: Any) -> Iterator[Any]:
    """Goes over the frames of a stream: what stands in the `for` runs once for each, wherever there is room.

    `collect(ocr.read(page) for page in each(pages))` gives their list; without `collect` they are a stream in the order
    of the frames. Several streams go in lockstep; the shortest ends them.
    """
    recording("each")
    return _EachItem(streams, places.caller())


class _EachItem:
    """Iterates exactly once, over a symbol that stands for every item."""

    def __init__(self, streams: tuple[Any, ...], source: Source) -> None:
        self._streams = streams
        self._source = source
        self._region: Region | None = None
        self._begun = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        trace, _ = recording("each")
        if self._begun:
            if self._region is not None:
                trace.must_be_in(self._region)
                trace.region = self._region.parent or trace.root
            raise StopIteration
        self._begun = True
        items = self._open(trace)
        return items[0] if len(items) == 1 else tuple(items)

    def _open(self, trace: Trace) -> list[Symbol]:
        admitted = [_stream(trace, value, self._source, "each(...)") for value in self._streams]
        symbols = [symbol for symbol in admitted if symbol is not None and view(symbol).origin is not None]
        if len(symbols) < len(self._streams):
            return [trace.mistaken("the item of each(...)", self._source) for _ in self._streams]
        label = f"each({', '.join(view(symbol).label for symbol in symbols)})"
        inputs = [(f"stream{index}", symbol) for index, symbol in enumerate(symbols)]
        node = trace.add_control(Each(len(trace.nodes)), inputs, self._source, trace.region)
        region = self._region = Region("each", label, self._source, trace.region, node, only=trace.nodes[node].only)
        items = []
        for symbol in symbols:
            type = view(symbol).type
            items.append(trace.output(node, type and type.frame(), f"an item of {view(symbol).label}", region=region))
        trace.output(node, _COUNT, f"the count of {label}")
        trace.region = region
        return items


@overload
def collect(values: Iterable[tuple[A, B]], /) -> tuple[list[A], list[B]]: ...  # type: ignore[overload-overlap]
@overload
def collect(values: Iterable[tuple[A, B, C]], /) -> tuple[list[A], list[B], list[C]]: ...  # type: ignore[overload-overlap]
@overload
def collect(values: Iterable[T], /) -> list[T]: ...
def collect(values: Any, /) -> Any:
    """A list of all that a stream brings, or of what an `each` makes, in the order of the items.

    Items for which nothing came (a branch not taken, an optional value missing) are left out; none at all give []. When
    every item makes several values, a list of each is returned.
    """
    return _gather("collect", values, _collect)


@overload
def unordered(values: Iterable[tuple[A, B]], /) -> tuple[Stream[A], Stream[B]]: ...  # type: ignore[overload-overlap]
@overload
def unordered(values: Iterable[T], /) -> Stream[T]: ...
def unordered(values: Any, /) -> Any:
    """What an `each` makes, as a stream in order of arrival: `unordered(ocr.read(page) for page in each(pages))`."""
    return _gather("unordered", values, _unordered)


def zip_streams(first: Stream[A], second: Stream[B], /) -> tuple[Stream[A], Stream[B]]:
    """Two streams in lockstep: frame i of each goes out when both have come; the shorter ends both."""
    trace, source = recording("zip_streams")
    symbols = [_stream(trace, value, source, "zip_streams(...)") for value in (first, second)]
    if any(symbol is None or view(symbol).origin is None for symbol in symbols):
        wrong = trace.mistaken("zip_streams(...)", source)
        return cast("tuple[Stream[A], Stream[B]]", (wrong, wrong))
    named = [(f"stream{index}", symbol) for index, symbol in enumerate(symbols)]
    node = trace.add_control(Zip(), named, source, trace.region)
    seen = [view(symbol) for symbol in symbols if symbol is not None]
    maybe = any(each_.maybe for each_ in seen)
    made = tuple(trace.output(node, each_.type, f"{each_.label} in lockstep", maybe=maybe) for each_ in seen)
    return cast("tuple[Stream[A], Stream[B]]", made)


@overload
def merge(first: Stream[T], second: Stream[T], /, *more: Stream[T]) -> Stream[T]: ...
@overload
def merge(first: T, second: T, /, *more: T) -> Stream[T]: ...
def merge(*values: Any) -> Any:
    """All frames of all of them as one stream, in order of arrival. All must be of one type; a value is one frame."""
    trace, source = recording("merge")
    symbols = [admit(trace, value, source, "merge(...)") for value in values]
    return merged(trace, symbols, source, "merge")


def merged(trace: Trace, symbols: list[Symbol | None], source: Source, name: str) -> Symbol:
    """The stream of what `symbols` bring, once it's sure that they are of one type."""
    known = [symbol for symbol in symbols if symbol is not None and view(symbol).origin is not None]
    if len(known) < len(symbols) or not same_type(trace, known, source, name):
        return trace.mistaken(f"{name}(...)", source)
    inputs = [(f"value{index}", symbol) for index, symbol in enumerate(known)]
    only = either([view(symbol).only for symbol in known])
    node = trace.add_control(Merge(), inputs, source, trace.region, only=only)
    type = view(known[0]).type
    maybe = all(view(symbol).maybe for symbol in known)
    return trace.output(node, type and type.streamed(), f"the result of `{trace.nodes[node].name}`", maybe=maybe)


def same_type(trace: Trace, symbols: list[Symbol], source: Source, name: str) -> bool:
    """Reports symbols of several types."""
    types = [seen.type for seen in map(view, symbols) if seen.type is not None]
    if all(type.required() == types[0].required() for type in types):
        return True
    listed = ", ".join(f"{view(symbol).label} is {view(symbol).type}" for symbol in symbols)
    trace.problem(
        "wrong-type", f"{name} joins values of one type: {listed}", "convert them to one type by a role first", source
    )
    return False


def _stream(trace: Trace, value: Any, source: Source, used: str) -> Symbol | None:
    """An admitted symbol that is a stream."""
    symbol = admit(trace, value, source, used)
    if symbol is None:
        return None
    seen = view(symbol)
    if seen.type is None or seen.type.stream:
        return symbol
    cure = "let the role yield it (`-> Stream[...]`), or declare the input of the flow as Stream[...]"
    if seen.type.kind is Kind.LIST:
        cure = f"declare it as Stream[{seen.type.item}] instead of {seen.type}: a list is one value that travels whole"
    trace.problem("not-a-stream", f"{used} goes over a stream, and {seen.label} is {seen.type.one}", cure, source)
    return None


def _gather(name: str, values: Any, close: Callable[[Trace, Symbol, Source], Symbol]) -> Any:
    trace, source = recording(name)
    made = settle(trace, values, source)
    if isinstance(made, tuple):
        return tuple(_close(trace, value, source, name, close) for value in made)
    return _close(trace, made, source, name, close)


def _close(
    trace: Trace, value: Any, source: Source, name: str, close: Callable[[Trace, Symbol, Source], Symbol]
) -> Symbol:
    label = f"{name}(...)"
    if not isinstance(value, Symbol) or view(value).trace is not trace:
        admit(trace, value, source, label)
        return trace.mistaken(label, source)
    if view(value).origin is None:
        return value
    return close(trace, value, source)


def _collect(trace: Trace, value: Symbol, source: Source) -> Symbol:
    seen = view(value)
    wrong = trace.mistaken("collect(...)", source)
    if seen.region is not None and trace.region.within(seen.region):
        if seen.type is not None and not seen.type.stream:
            return _nothing_to_close(trace, value, source, "collect")
        symbol = admit(trace, value, source, "collect(...)")
        if symbol is None:
            return wrong
        node = trace.add_control(Collect(None), [("stream", symbol)], source, trace.region)
        label = f"the list of {seen.label}"
        return trace.output(node, seen.type and seen.type.listed(), label, maybe=seen.maybe)
    left = leaving(trace, value, source)
    if left is None or left.parent is None or not plain_item(trace, value, left, source):
        return wrong
    node = trace.add_control(Collect(left.node), exit_inputs(trace, value, left), source, left.parent)
    return trace.output(
        node, seen.type and seen.type.listed(), f"the list of {seen.label}", maybe=source_maybe(trace, left)
    )


def _unordered(trace: Trace, value: Symbol, source: Source) -> Symbol:
    seen = view(value)
    if seen.region is not None and trace.region.within(seen.region):
        return _nothing_to_close(trace, value, source, "unordered")
    left = leaving(trace, value, source)
    if left is None or left.parent is None or not plain_item(trace, value, left, source):
        return trace.mistaken("unordered(...)", source)
    node = trace.add_control(Unordered(left.node), exit_inputs(trace, value, left), source, left.parent)
    label = f"{seen.label} in order of arrival"
    return trace.output(node, seen.type and seen.type.streamed(), label, maybe=source_maybe(trace, left))


def _nothing_to_close(trace: Trace, value: Symbol, source: Source, name: str) -> Symbol:
    seen = view(value)
    what = "a stream, or what an each(...) makes" if name == "collect" else "what an each(...) makes"
    trace.problem(
        "nothing-to-collect",
        f"{name} takes {what}, and {seen.label} is {seen.type.one if seen.type else 'one value'}, the same for all",
        f"write `{name}(role.method(item) for item in each(stream))`"
        + (", or pass the value as it is" if name == "collect" else ""),
        source,
    )
    return trace.mistaken(f"{name}(...)", source)
