"""From a recording to `omniflow.v1.Flow`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from omniflow.errors import Source
from omniflow.flow.alternatives import inlined
from omniflow.flow.control import AnyOf, Each, Loop, Merge, Unordered
from omniflow.flow.region import Region
from omniflow.flow.symbol import ParameterSymbol, Symbol, view
from omniflow.flow.trace import ControlNode, RoleNode, Trace, TracedNode
from omniflow.flow.usage import Usage
from omniflow.roles import PortSpec
from omniflow.types import ValueType, to_message
from omniflow.v1 import flow_pb2
from omniflow_core import flow_version


@dataclass(frozen=True, slots=True)
class Result:
    """One result of the flow and the symbol that feeds it."""

    port: PortSpec
    symbol: Symbol


def compile_flow(
    trace: Trace, inputs: list[PortSpec], results: list[Result], usage: Usage, doc: str, source: Source
) -> flow_pb2.Flow:
    """The graph of a recording without problems, with its version."""
    message = flow_pb2.Flow(
        name=trace.flow,
        inputs=[_port(port.name, port.type) for port in inputs],
        results=[_port(result.port.name, result.port.type) for result in results],
        doc=doc,
        source=_source(source),
    )
    _Compiler(trace, usage, message, results).write()
    message.version = flow_version(message.SerializeToString())
    return message


class _Compiler:
    """Writes nodes, edges and scopes; numbers change, since what is in vain or inlined is left out."""

    def __init__(self, trace: Trace, usage: Usage, message: flow_pb2.Flow, results: list[Result]) -> None:
        self._trace = trace
        self._message = message
        self._results = results
        self._inlined = inlined(trace, usage, [result.symbol for result in results])
        kept = [index for index in sorted(usage.nodes) if index not in self._inlined]
        self._kept = kept
        self._numbers = {index: number for number, index in enumerate(kept)}
        makers = [index for index in kept if _makes_scope(trace.nodes[index])]
        self._scopes = {index: number for number, index in enumerate(makers, start=1)}

    def write(self) -> None:
        for index in self._scopes:
            self._scope(index)
        # Nodes first: an edge takes its type from the port that it leaves, and loops have edges that lead back.
        for index in self._kept:
            self._node(index)
        for index in self._kept:
            self._feed(index)
        for port, result in enumerate(self._results):
            self._edge(result.symbol, flow_pb2.End(place=flow_pb2.End.RESULT, port=port))
        for name, (spec, symbol) in self._trace.parameters.items():
            self._parameter(name, spec.type, spec.default, symbol)

    def _scope(self, index: int) -> None:
        node = self._trace.nodes[index]
        made = view(node.outputs[0]).region
        is_loop = isinstance(node, ControlNode) and isinstance(node.control, Loop)
        self._message.scopes.add(
            kind=flow_pb2.Scope.LOOP if is_loop else flow_pb2.Scope.EACH,
            parent=self._number(node.region),
            node=self._numbers[index],
            name=made.label if made is not None else node.name,
        )

    def _number(self, region: Region) -> int:
        """Of the scope that a region is in."""
        return self._scopes.get(region.scope.node, 0)

    def _node(self, index: int) -> None:
        traced = self._trace.nodes[index]
        node = self._message.nodes.add(
            name=traced.name, source=_source(traced.source), scope=self._number(traced.region)
        )
        if isinstance(traced, RoleNode):
            self._role(node, traced)
        elif isinstance(traced, ControlNode):
            traced.control.write(node, lambda maker: self._scopes[maker])
            names = traced.control.output_names(len(traced.outputs))
            for port in _outputs_kept(traced):
                type = view(traced.outputs[port]).type
                node.outputs.append(_port(names[port], type.required() if type else None))

    def _role(self, node: flow_pb2.Node, traced: RoleNode) -> None:
        node.role, node.method = traced.role, traced.spec.name
        node.outputs.extend(_port(output.name, output.type) for output in traced.spec.outputs)
        for name, given in traced.constants.items():
            value = self._trace.default_of(given) if isinstance(given, ParameterSymbol) else given
            if value is None:
                continue
            target = traced.spec.input(name) or traced.spec.parameter(name)
            node.parameters[name].CopyFrom(to_message(value, target.type if target else None, field=name))
        options, settings = traced.spec.options, traced.settings
        node.options.max_attempts = settings.max_attempts or options.max_attempts
        node.options.resumable = options.resumable
        node.options.deadline_share = settings.deadline_share
        node.options.deterministic = options.deterministic and not self._timing_decides(traced)
        node.options.near.extend(self._near(traced))

    def _timing_decides(self, traced: TracedNode) -> bool:
        """Rule 8: what comes by order of arrival may come otherwise the next time."""
        seen: set[int] = set()
        pending = [view(symbol).origin for symbol in traced.fed_by()]
        while pending:
            origin = pending.pop()
            if origin is None or origin.node is None or origin.node in seen:
                continue
            seen.add(origin.node)
            node = self._trace.nodes[origin.node]
            if isinstance(node, ControlNode):
                if isinstance(node.control, Merge | Unordered) or (
                    isinstance(node.control, AnyOf) and not node.control.chosen
                ):
                    return True
                pending += [view(symbol).origin for symbol in node.fed_by()]
        return False

    def _near(self, traced: RoleNode) -> list[int]:
        """The role nodes that made what it wants to be near, through the control nodes between."""
        found: dict[int, None] = {}
        seen: set[int] = set()
        pending = [view(symbol).origin for symbol in traced.settings.near if isinstance(symbol, Symbol)]
        while pending:
            origin = pending.pop(0)
            if origin is None or origin.node is None or origin.node in seen:
                continue
            seen.add(origin.node)
            node = self._trace.nodes[origin.node]
            if isinstance(node, RoleNode):
                if origin.node in self._numbers and node is not traced:
                    found[self._numbers[origin.node]] = None
            else:
                pending += [view(symbol).origin for symbol in node.fed_by()]
        return list(found)

    def _feed(self, index: int) -> None:
        traced, number = self._trace.nodes[index], self._numbers[index]
        if isinstance(traced, RoleNode):
            self._feed_role(traced, number)
        elif isinstance(traced, ControlNode):
            self._feed_control(traced, number)
        if traced.gate is not None:
            node = self._message.nodes[number]
            port = self._feed_port(number, flow_pb2.Port(name="gate", gate=True), traced.gate)
            for alternative in node.trigger:
                alternative.ports.append(port)

    def _feed_role(self, traced: RoleNode, number: int) -> None:
        choices: list[list[int]] = []
        for name, symbol in traced.feeds.items():
            spec, origin = traced.spec.input(name), view(symbol).origin
            if spec is None or origin is None:
                continue
            several = self._inlined.get(origin.node) if origin.node is not None else None
            if several is None:
                choices.append([self._feed_port(number, _port(name, spec.type, name), symbol)])
            else:
                choices.append(
                    [
                        self._feed_port(number, _port(f"{name}#{which}", spec.type, name), each)
                        for which, each in enumerate(several, start=1)
                    ]
                )
        # One alternative per way to choose one port of every parameter, in the order in which any_of names them.
        alternatives = [flow_pb2.Alternative(ports=ports) for ports in itertools.product(*choices)]
        self._message.nodes[number].trigger.extend(alternatives)

    def _feed_control(self, traced: ControlNode, number: int) -> None:
        ports = []
        for input_ in _inputs_kept(traced):
            name, symbol = traced.inputs[input_]
            if symbol is not None:
                type = view(symbol).type
                ports.append(self._feed_port(number, _port(name, type.required() if type else None), symbol))
        self._message.nodes[number].trigger.add(ports=ports)

    def _feed_port(self, number: int, port: flow_pb2.Port, symbol: Symbol) -> int:
        """Adds an input port to a node, and the edge that feeds it. Its index."""
        node = self._message.nodes[number]
        if port.gate:
            type = view(symbol).type
            port.type.CopyFrom((type.required() if type else ValueType.from_proto(port.type)).to_proto())
        node.inputs.append(port)
        index = len(node.inputs) - 1
        self._edge(symbol, flow_pb2.End(place=flow_pb2.End.NODE, node=number, port=index))
        return index

    def _edge(self, symbol: Symbol, to: flow_pb2.End) -> None:
        origin = view(symbol).origin
        if origin is None:
            return
        if origin.node is None:
            end = flow_pb2.End(place=flow_pb2.End.INPUT, port=origin.port)
            type = self._message.inputs[origin.port].type
        else:
            number = self._numbers[origin.node]
            port = _outputs_kept(self._trace.nodes[origin.node]).index(origin.port)
            end = flow_pb2.End(place=flow_pb2.End.NODE, node=number, port=port)
            type = self._message.nodes[number].outputs[port].type
        edge = self._message.edges.add(to=to, type=type)
        getattr(edge, "from").CopyFrom(end)

    def _parameter(self, name: str, type: ValueType, default: object, symbol: ParameterSymbol) -> None:
        targets = [
            f"{node.name}.{parameter}"
            for node in (self._trace.nodes[index] for index in self._kept)
            if isinstance(node, RoleNode)
            for parameter, value in node.constants.items()
            if value is symbol
        ]
        self._message.parameters.add(
            name=name,
            type=type.to_proto(),
            default=None if default is None else to_message(default, type, field=name),
            targets=targets,
        )


def _makes_scope(node: TracedNode) -> bool:
    return isinstance(node, ControlNode) and isinstance(node.control, Each | Loop)


def _inputs_kept(node: ControlNode) -> list[int]:
    return node.control.inputs_kept() if isinstance(node.control, Loop) else list(range(len(node.inputs)))


def _outputs_kept(node: TracedNode) -> list[int]:
    if isinstance(node, ControlNode) and isinstance(node.control, Loop):
        return node.control.outputs_kept()
    return list(range(len(node.outputs)))


def _port(name: str, type: ValueType | None, parameter: str = "") -> flow_pb2.Port:
    return flow_pb2.Port(name=name, type=type.to_proto() if type else None, parameter=parameter)


def _source(source: Source) -> flow_pb2.Source:
    return flow_pb2.Source(file=source.file, line=source.line, function=source.function)
