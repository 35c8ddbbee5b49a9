"""From a recording to `omniflow.v1.Flow`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from omniflow.errors import Source
from omniflow.flow.symbol import Origin, Symbol, view
from omniflow.flow.trace import Trace, TracedNode
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
    trace: Trace, inputs: list[PortSpec], results: list[Result], doc: str, source: Source
) -> flow_pb2.Flow:
    """The graph of a recording without problems, with its version."""
    message = flow_pb2.Flow(
        name=trace.flow,
        inputs=[_port(port.name, port.type) for port in inputs],
        results=[_port(result.port.name, result.port.type) for result in results],
        doc=doc,
        source=_source(source),
    )
    for index, node in enumerate(trace.nodes):
        _add_node(message, index, node)
    for index, result in enumerate(results):
        end = flow_pb2.End(place=flow_pb2.End.RESULT, port=index)
        for origin in view(result.symbol).origins:
            _add_edge(message, origin, end)
    message.version = flow_version(message.SerializeToString())
    return message


def _add_node(message: flow_pb2.Flow, index: int, traced: TracedNode) -> None:
    node = message.nodes.add(
        name=traced.name,
        role=traced.role,
        method=traced.spec.name,
        outputs=[_port(output.name, output.type) for output in traced.spec.outputs],
        source=_source(traced.source),
    )
    choices: list[list[int]] = []
    for name, symbol in traced.feeds.items():
        spec = traced.spec.input(name)
        if spec is None:
            continue
        origins = view(symbol).origins
        choices.append(list(range(len(node.inputs), len(node.inputs) + len(origins))))
        # The ports of a choice are required: else the first one to be closed would win with None.
        type_ = spec.type if len(origins) == 1 else spec.type.required()
        for number, origin in enumerate(origins, start=1):
            port = len(node.inputs)
            node.inputs.append(_port(name if len(origins) == 1 else f"{name}#{number}", type_, name))
            _add_edge(message, origin, flow_pb2.End(place=flow_pb2.End.NODE, node=index, port=port))
    # One alternative per way to choose one port of every parameter, in the order in which any_of names them.
    node.trigger.extend(flow_pb2.Alternative(ports=ports) for ports in itertools.product(*choices))
    for name, value in traced.constants.items():
        target = traced.spec.input(name) or traced.spec.parameter(name)
        node.parameters[name].CopyFrom(to_message(value, target.type if target else None, field=name))
    options = traced.spec.options
    # Which alternative fires first is a matter of timing (rule 8).
    node.options.deterministic = options.deterministic and len(node.trigger) == 1
    node.options.max_attempts = options.max_attempts


def _add_edge(message: flow_pb2.Flow, origin: Origin, to: flow_pb2.End) -> None:
    if origin.node is None:
        end = flow_pb2.End(place=flow_pb2.End.INPUT, port=origin.port)
        type_ = message.inputs[origin.port].type
    else:
        end = flow_pb2.End(place=flow_pb2.End.NODE, node=origin.node, port=origin.port)
        type_ = message.nodes[origin.node].outputs[origin.port].type
    edge = message.edges.add(to=to, type=type_)
    getattr(edge, "from").CopyFrom(end)


def _port(name: str, type: ValueType, parameter: str = "") -> flow_pb2.Port:
    return flow_pb2.Port(name=name, type=type.to_proto(), parameter=parameter)


def _source(source: Source) -> flow_pb2.Source:
    return flow_pb2.Source(file=source.file, line=source.line, function=source.function)
