"""`@flow`: a function that says what runs when, recorded once and compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from omniflow.errors import BadFlow, Problem, Source
from omniflow.flow import places
from omniflow.flow.check import check_graph
from omniflow.flow.compile import compile_flow
from omniflow.flow.inputs import Inputs
from omniflow.flow.nested_call import check_call
from omniflow.flow.raised import explained
from omniflow.flow.results import read_results, result_ports
from omniflow.flow.symbol import SymbolMisused
from omniflow.flow.trace import Trace, active
from omniflow.flow.usage import unused, usage_of
from omniflow.roles import Role
from omniflow.types import BadAnnotation, resolve_hints
from omniflow.v1 import flow_pb2

P = ParamSpec("P")
R = TypeVar("R")


class Flow(Generic[P, R]):
    """A flow. It is recorded and checked at the first `to_proto()`, not when its module is imported."""

    def __init__(self, function: Callable[P, R], name: str | None = None) -> None:
        update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        self._compiled: flow_pb2.Flow | None = None

    def __repr__(self) -> str:
        return f"<flow {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Inside another flow: records this one's nodes in it."""
        trace = active()
        if trace is None:
            problem = Problem(
                "flow-called",
                f"`{self.name}` is a flow: calling it here runs nothing",
                f'submit it: `await client.submit("{self.name}", …)`',
                places.caller(),
            )
            raise BadFlow.of(self.name, [problem])
        check_call(self.name, self.function, args, kwargs, places.caller())
        with trace.nested(self.name):
            return self.function(*args, **kwargs)

    def to_proto(self) -> flow_pb2.Flow:
        """The compiled graph. Raises `BadFlow`, whose `problems` name every mistake's line and cure."""
        if self._compiled is None:
            self._compiled = _Recorder(self.name, self.function).compile()
        return self._compiled

    def problems(self) -> list[Problem]:
        """All mistakes; empty when the flow can run."""
        try:
            self.to_proto()
        except BadFlow as error:
            return list(error.problems)
        return []


@overload
def flow(function: Callable[P, R], /) -> Flow[P, R]: ...
@overload
def flow(*, name: str) -> Callable[[Callable[P, R]], Flow[P, R]]: ...
def flow(
    function: Callable[P, R] | None = None, /, *, name: str | None = None
) -> Flow[P, R] | Callable[[Callable[P, R]], Flow[P, R]]:
    """Makes a function a flow, known by the function's name unless `name` is given."""

    def wrap(wrapped: Callable[P, R]) -> Flow[P, R]:
        return Flow(wrapped, name)

    return wrap if function is None else wrap(function)


class _Recorder:
    """One compilation: signature, recording, results, checks. Each step reports all that it finds."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._places = places.places_of(function)
        self._trace = Trace(name, self._places.definition)

    def compile(self) -> flow_pb2.Flow:
        self._plain()
        hints = self._hints()
        inputs = Inputs(self._trace, self._function, self._places, hints)
        ports = result_ports(self._trace, hints.get("return"), "return" in hints, self._places.definition)
        self._stop_if_wrong()
        returned = self._record(inputs)
        self._stop_if_wrong()
        results = read_results(self._trace, ports, returned, self._places.returned)
        self._stop_if_wrong()
        usage = usage_of(self._trace, [result.symbol for result in results])
        self._trace.problems += unused(self._trace, usage)
        self._stop_if_wrong()
        doc = inspect.getdoc(self._function) or ""
        compiled = compile_flow(self._trace, inputs.ports, results, usage, doc, self._places.definition)
        self._trace.problems += check_graph(compiled)
        self._stop_if_wrong()
        return compiled

    def _plain(self) -> None:
        """Reports a function that gives no results when it is called."""
        if inspect.iscoroutinefunction(self._function) or inspect.isasyncgenfunction(self._function):
            kind, cure = "an `async def`", "write `def`, and call roles without `await`"
        elif inspect.isgeneratorfunction(self._function):
            kind, cure = "a generator (`yield`)", "return the stream that a role makes: `return llm.chat(question)`"
        else:
            return
        message = f"flow `{self._name}` is {kind}, and a flow is recorded in one go: it only says what runs when"
        self._report("not-a-function", message, cure, self._places.definition)
        self._stop_if_wrong()

    def _hints(self) -> dict[str, Any]:
        try:
            return resolve_hints(self._function)
        except BadAnnotation as error:
            self._trace.problem("bad-annotation", error.message, error.cure, self._places.definition)
            self._stop_if_wrong()
            raise

    def _record(self, inputs: Inputs) -> Any:
        try:
            with self._trace.recording():
                returned = self._function(**inputs.arguments)
                self._trace.must_be_in(self._trace.root)
                return returned
        except SymbolMisused as error:
            if places.runs_inside(error.__traceback__, Role):
                source = places.raised_at(error.__traceback__, self._function) or self._places.definition
                self._report(
                    "role-without-use",
                    "a role's method is run here, while the flow is recorded, on values that do not exist yet",
                    "call it by a handle: `ocr = use(Ocr)` outside the function, then `ocr.read(...)`",
                    source,
                )
            else:
                self._trace.problems.append(error.problem)
        except BadFlow as error:
            self._trace.problems += error.problems
        except Exception as error:  # the user's own code may raise anything: it is shown with its line
            source = places.raised_at(error.__traceback__, self._function) or self._places.definition
            why = explained(error, self._name)
            self._report(why.code, why.message, why.cure, source)
        return None

    def _report(self, code: str, message: str, cure: str, source: Source) -> None:
        self._trace.problem(code, message, cure, source)

    def _stop_if_wrong(self) -> None:
        if self._trace.problems:
            raise BadFlow.of(self._name, self._trace.problems)
