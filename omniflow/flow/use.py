"""`use(Role)`: the handle whose method calls record nodes."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from omniflow.errors import BadFlow, InvalidArgument, Problem, Source
from omniflow.flow import places
from omniflow.flow.arguments import bind
from omniflow.flow.settings import NodeSettings
from omniflow.flow.symbol import view
from omniflow.flow.trace import RoleNode, active
from omniflow.roles import BadRole, MethodSpec, Role, RoleSpec, spec_of

R = TypeVar("R", bound=Role)


def use(role: type[R], name: str | None = None) -> R:
    """A handle on a role for flows; type checkers see the class's own methods.

    `name`: the role's name in the cluster, when it isn't the class's: `use(Llm, "llm-large")`. Raises `InvalidArgument`
    when `role` is no role class.
    """
    if not (isinstance(role, type) and issubclass(role, Role)):
        raise InvalidArgument(
            f"use() wants a role class, got {role!r}",
            field="role",
            cure="pass the class itself, without brackets: use(Ocr)",
        )
    return cast(R, RoleHandle(role, name or role.name))


class RoleHandle:
    """Stands for a role inside flows."""

    def __init__(self, role: type[Role], name: str) -> None:
        self._role = role
        self._name = name

    def __repr__(self) -> str:
        return f"use({self._role.__name__}, {self._name!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        trace, source = active(), places.caller()
        try:
            spec = spec_of(self._role)
        except BadRole as error:
            problem = Problem("bad-role", error.message, error.cure, source)
        else:
            if name in spec.methods:
                return MethodHandle(self._name, spec.methods[name])
            problem = self._unknown(name, spec, source)
        if trace is None:
            raise AttributeError(problem.render())
        trace.problems.append(problem)
        return trace.mistaken(f"`{self._name}.{name}`", source)

    def _unknown(self, name: str, spec: RoleSpec, source: Source) -> Problem:
        if name in dir(self._role):
            return Problem(
                "unpublished-method",
                f"`{name}` of `{self._role.__name__}` is not published to flows",
                f"decorate it with @method in `{self._role.__module__}`",
                source,
            )
        return Problem(
            "unknown-method",
            f"role `{self._name}` ({self._role.__name__}) has no method `{name}`",
            suggestion(name, spec.methods, "its methods"),
            source,
        )


class MethodHandle:
    """One method of a handle: calling it records a node."""

    def __init__(self, role: str, spec: MethodSpec, settings: NodeSettings | None = None) -> None:
        self._role = role
        self._spec = spec
        self._settings = settings or NodeSettings()

    def __repr__(self) -> str:
        return f"{self._role}.{self._spec.name}"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        trace, source = active(), places.caller()
        call = f"{self._role}.{self._spec.name}"
        if trace is None:
            raise BadFlow.of(
                call,
                [
                    Problem(
                        "outside-flow",
                        f"`{call}` is called outside a flow, where there is nothing to record",
                        "call it inside a function decorated with @flow; to run a job, submit the flow by a client",
                        source,
                    )
                ],
            )
        name = trace.name(call)
        bound = bind(trace, name, self._spec, arguments, named, source)
        node = RoleNode(
            name=name,
            source=source,
            region=trace.region,
            role=self._role,
            spec=self._spec,
            feeds=bound.feeds,
            constants=bound.constants,
            settings=self._settings,
        )
        index = trace.add(node)
        feeds = [(port, bound.feeds[port.name]) for port in self._spec.inputs if port.name in bound.feeds]
        if not bound.mistaken:
            trace.place(index, [(symbol, not port.type.optional) for port, symbol in feeds])
        # A required input that is closed closes all outputs (rule 2).
        closes = any(view(symbol).maybe and not port.type.optional for port, symbol in feeds)
        several = len(self._spec.outputs) > 1
        for output in self._spec.outputs:
            label = f"`{output.name}` of `{name}`" if several else f"the result of `{name}`"
            trace.output(index, output.type, label, maybe=closes or output.type.optional)
        if self._spec.returns is None:
            return node.outputs[0]
        return self._spec.returns(
            **{port.name: symbol for port, symbol in zip(self._spec.outputs, node.outputs, strict=True)}
        )

    @property
    def __signature__(self) -> inspect.Signature:
        """Of its inputs, so that a loop may take the method itself for its body."""
        inputs = {port.name.partition(".")[0] for port in self._spec.inputs}
        declared = self._spec.signature.parameters.values()
        return inspect.Signature([parameter for parameter in declared if parameter.name in inputs])

    def with_settings(self, settings: NodeSettings) -> MethodHandle:
        return MethodHandle(self._role, self._spec, settings)


def suggestion(name: str, known: Iterable[str], title: str) -> str:
    """ "did you mean …", or what there is."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    listed = ", ".join(f"`{each}`" for each in names) or "none"
    return f"did you mean `{close[0]}`? ({title}: {listed})" if close else f"{title}: {listed}"
