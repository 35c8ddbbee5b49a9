"""`loop`: a body that runs in rounds, each on the state that the last one made, until a role says that it's done."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from omniflow.errors import Source
from omniflow.flow.admission import admit, recording, settle
from omniflow.flow.control import Loop
from omniflow.flow.region import Region
from omniflow.flow.symbol import Symbol, origins_of, view
from omniflow.flow.trace import Trace
from omniflow.roles.description import bundle_values, is_bundle
from omniflow.types import Kind, Stream, ValueType

A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S")


@overload
def loop(body: Callable[[S], Any], /, start: S, *, until: str, max_rounds: int) -> S: ...
@overload
def loop(body: Callable[[S], Any], /, start: S, *, until: str, emit: str, max_rounds: int) -> Stream[Any]: ...
@overload
def loop(
    body: Callable[[S], Any], /, start: S, *, until: str, emit: tuple[str, ...], max_rounds: int
) -> tuple[Stream[Any], ...]: ...
@overload
def loop(body: Callable[[A, B], Any], /, start: tuple[A, B], *, until: str, max_rounds: int) -> tuple[A, B]: ...
@overload
def loop(
    body: Callable[[A, B], Any], /, start: tuple[A, B], *, until: str, emit: str, max_rounds: int
) -> Stream[Any]: ...
@overload
def loop(
    body: Callable[[A, B], Any], /, start: tuple[A, B], *, until: str, emit: tuple[str, ...], max_rounds: int
) -> tuple[Stream[Any], ...]: ...
def loop(
    body: Callable[..., Any],
    /,
    start: Any,
    *,
    until: str | None = None,
    emit: str | tuple[str, ...] = (),
    max_rounds: int | None = None,
) -> Any:
    """Runs `body` in rounds: on `start`, then on what the last round returned, until that says so.

    `body` takes the state and returns a NamedTuple of what a round makes. When the state is a NamedTuple too, its
    fields are carried from round to round; else the body's parameters name the fields that are. `until` names a field
    that is a bool: True ends the loop after this round. With `emit`, the loop gives that field of every round as a
    stream (several names: several streams); without, the last state. A job that is not done after `max_rounds` fails
    (LOOP_LIMIT).
    """
    trace, source = recording("loop")
    # Both are always needed: they have defaults so that a flow without them is told why.
    return _Looper(trace, source, body, until, emit, max_rounds).run(start)


@dataclass(frozen=True, slots=True)
class _State:
    """`fields`: what the state consists of, by name; `bundle`: the class that holds it, if any."""

    fields: dict[str, Any]
    bundle: type[Any] | None
    single: bool

    def packed(self, values: dict[str, Any]) -> Any:
        """As the user passes it: a bundle, one value or a tuple."""
        if self.bundle is not None:
            return self.bundle(**values)
        return next(iter(values.values())) if self.single else tuple(values.values())


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round makes: the next state, whether it was the last, what it gives out."""

    nexts: dict[str, Symbol | None]
    until: Symbol
    emits: dict[str, Symbol]


class _Looper:
    """One loop: its node, its body, and what comes of it."""

    def __init__(
        self,
        trace: Trace,
        source: Source,
        body: Callable[..., Any],
        until: str | None,
        emit: str | tuple[str, ...],
        max_rounds: int | None,
    ) -> None:
        self._trace = trace
        self._source = source
        self._body = body
        self._until = until or ""
        self._emit = (emit,) if isinstance(emit, str) else emit
        self._one_stream = isinstance(emit, str)
        self._max_rounds = max_rounds or 0
        self._bound_given = max_rounds is not None
        self._region = trace.region
        self._name = f"loop `{getattr(body, '__name__', repr(body))}`"

    def run(self, start: Any) -> Any:
        if not self._sensible():
            return self._mistaken_as(start)
        state = self._state(settle(self._trace, start, self._source))
        starts = {name: self._start(name, value) for name, value in state.fields.items()} if state else {}
        if state is None or any(symbol is not None and view(symbol).origin is None for symbol in starts.values()):
            return self._mistaken_as(start)
        node, states = self._opened(starts)
        made = self._recorded(state.packed(states), states)
        if made is None:
            return self._mistaken_as(start)
        self._trace.feed_back(node, [(f"next.{name}", symbol) for name, symbol in made.nexts.items()])
        self._trace.feed_back(node, [("until", made.until)])
        self._trace.feed_back(node, [(f"emit.{name}", symbol) for name, symbol in made.emits.items()])
        return self._outcome(node, state, starts, states, made)

    def _opened(self, starts: dict[str, Symbol | None]) -> tuple[int, dict[str, Symbol]]:
        """The loop's node, and the state that a round reads."""
        trace = self._trace
        control = Loop(len(trace.nodes), tuple(starts), self._max_rounds, self._emit)
        inputs = [(f"start.{name}", symbol) for name, symbol in starts.items()]
        node = trace.add_control(control, inputs, self._source, trace.region)
        region = Region("loop", self._name, self._source, trace.region, node, only=trace.nodes[node].only)
        states = {
            name: trace.output(node, _type(symbol), f"`{name}` of {self._name}", region=region)
            for name, symbol in starts.items()
        }
        self._region = region
        return node, states

    def _recorded(self, state: Any, states: dict[str, Symbol]) -> _Round | None:
        """One round; None once a problem is reported."""
        with self._trace.entered(self._region):
            made = self._made(state)
            if made is None:
                return None
            nexts = {name: self._next(made, name, each) for name, each in states.items()}
            until = self._flag(made)
            emits = {name: self._emitted(made, name) for name in self._emit}
        known = {name: symbol for name, symbol in emits.items() if symbol is not None}
        if until is None or len(known) < len(emits) or any(name not in made for name in states):
            return None
        return _Round(nexts, until, known)

    def _outcome(
        self, node: int, state: _State, starts: dict[str, Symbol | None], states: dict[str, Symbol], made: _Round
    ) -> Any:
        """What the loop gives: the last state, or streams of what the rounds emit."""
        trace = self._trace
        # A round without what the next one reads ends the loop without a value.
        read = {origin for each in trace.nodes[node + 1 :] for origin in origins_of(each.fed_by())}
        carried = [name for name, symbol in states.items() if view(symbol).origin in read]
        decisive = [made.until, *(starts[name] for name in carried), *(made.nexts[name] for name in carried)]
        maybe = any(_may_close(symbol) for symbol in decisive)
        finals = {}
        for name, each in states.items():
            label, closes = f"the last `{name}` of {self._name}", maybe or _may_close(made.nexts[name])
            finals[name] = trace.output(node, view(each).type, label, maybe=closes)
        streams = []
        for name, symbol in made.emits.items():
            type, label = view(symbol).type, f"`{name}` of every round of {self._name}"
            streams.append(trace.output(node, type and type.streamed(), label, maybe=maybe))
        if not self._emit:
            return state.packed(finals)
        return streams[0] if self._one_stream else tuple(streams)

    def _sensible(self) -> bool:
        right = True
        if not callable(self._body) or isinstance(self._body, Symbol):
            self._report("loop-body", "loop(...) wants a function of the state", "write `def body(state): ...`")
            right = False
        if not isinstance(self._max_rounds, int) or isinstance(self._max_rounds, bool) or self._max_rounds < 1:
            given = repr(self._max_rounds) if self._bound_given else "missing"
            self._report(
                "loop-bound",
                f"max_rounds of {self._name} is {given}: a loop without a bound might never end",
                "give the most rounds that make sense, e.g. max_rounds=32; a job that needs more fails (LOOP_LIMIT)",
            )
            right = False
        if not self._until:
            self._report(
                "loop-end",
                f"until of {self._name} is missing: it would not know when it is over",
                'name the bool field of what the body returns that is True after the last round: until="done"',
            )
            right = False
        return right

    def _state(self, start: Any) -> _State | None:
        if is_bundle(start):
            return _State(bundle_values(start), type(start), False)
        names = list(inspect.signature(self._body).parameters)
        values = list(start) if isinstance(start, tuple) else [start]
        if len(names) == len(values):
            return _State(dict(zip(names, values, strict=True)), None, not isinstance(start, tuple))
        self._report(
            "loop-body",
            f"the body of {self._name} takes {len(names)} values ({', '.join(names) or 'none'}), and start= has "
            f"{len(values)}",
            "let the body take what is carried from round to round, and start= give each of it",
        )
        return None

    def _start(self, name: str, value: Any) -> Symbol | None:
        """None for a field that has no start; it may be made by the body, but not read."""
        if value is None:
            return None
        symbol = admit(self._trace, value, self._source, f"start `{name}` of {self._name}")
        if symbol is None or self._is_stream(symbol, f"`{name}`, which {self._name} carries"):
            return self._trace.mistaken(name, self._source)
        return symbol

    def _made(self, state: Any) -> dict[str, Any] | None:
        """What a round returns, by name."""
        before = len(self._trace.problems)
        arguments = state if isinstance(state, tuple) and not is_bundle(state) else (state,)
        made = settle(self._trace, self._body(*arguments), self._source)
        if is_bundle(made):
            return bundle_values(made)
        if not (isinstance(made, Symbol) and view(made).origin is None) and len(self._trace.problems) == before:
            what = "one value" if isinstance(made, Symbol) else f"{type(made).__name__}"
            self._report(
                "loop-body",
                f"the body of {self._name} returns {what}, in which until=`{self._until}` cannot be found",
                f"return a NamedTuple with the next state and `{self._until}: bool`",
            )
        return None

    def _next(self, made: dict[str, Any], name: str, state: Symbol) -> Symbol | None:
        if name not in made:
            self._report(
                "not-carried",
                f"{self._name} carries `{name}`, and its body returns {_listed(made)}",
                f"return the next `{name}` too, or name the body's parameter after the field that is carried",
            )
            return None
        if made[name] is None:
            return None
        symbol = admit(self._trace, made[name], self._source, f"the next `{name}` of {self._name}")
        if symbol is None or self._is_stream(symbol, f"`{name}`, which {self._name} carries"):
            return self._trace.mistaken(name, self._source)
        before, after = view(state).type, view(symbol).type
        if before is not None and after is not None and before.required() != after.required():
            self._report(
                "wrong-type",
                f"{self._name} starts with `{name}` as {before.one} and goes on with {after.one}",
                "carry one type through all rounds",
            )
        return symbol

    def _flag(self, made: dict[str, Any]) -> Symbol | None:
        symbol = self._field(made, self._until, "until")
        type = view(symbol).type if symbol is not None else None
        if type is not None and (type.kind is not Kind.BOOLEAN or type.stream):
            self._report(
                "not-a-bool",
                f"until=`{self._until}` of {self._name} is {type.one}, which does not say whether to go on",
                "let a role's method return it as a bool field of a NamedTuple: True after the last round",
            )
            return None
        return symbol

    def _emitted(self, made: dict[str, Any], name: str) -> Symbol | None:
        symbol = self._field(made, name, "emit")
        if symbol is not None and self._is_stream(symbol, f"emit=`{name}` of {self._name}"):
            return None
        return symbol

    def _field(self, made: dict[str, Any], name: str, argument: str) -> Symbol | None:
        if name not in made:
            self._report(
                "unknown-field",
                f"{argument}=`{name}` of {self._name} names nothing that its body returns ({_listed(made)})",
                f"add `{name}` to the NamedTuple that it returns, or correct the name",
            )
            return None
        return admit(self._trace, made[name], self._source, f"{argument}=`{name}` of {self._name}")

    def _is_stream(self, symbol: Symbol, what: str) -> bool:
        type = view(symbol).type
        if type is None or not type.stream:
            return False
        self._report(
            "stream-in-loop",
            f"{what} is a {type}, and a round makes one value of it",
            "collect it inside the body: `collect(...)`, or let the role make one value",
        )
        return True

    def _mistaken_as(self, start: Any) -> Any:
        """Something of the shape of the result, once a problem is reported."""
        wrong = self._trace.mistaken(self._name, self._source)
        if self._emit:
            return wrong if self._one_stream else tuple(wrong for _ in self._emit)
        if is_bundle(start):
            return type(start)(**dict.fromkeys(bundle_values(start), wrong))
        return tuple(wrong for _ in start) if isinstance(start, tuple) else wrong

    def _report(self, code: str, message: str, cure: str) -> None:
        self._trace.problem(code, message, cure, self._source)


def _type(symbol: Symbol | None) -> ValueType | None:
    type = view(symbol).type if symbol is not None else None
    return type.required() if type is not None else None


def _may_close(symbol: Symbol | None) -> bool:
    return symbol is None or view(symbol).maybe


def _listed(made: dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in made)
