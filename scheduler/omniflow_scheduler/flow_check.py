"""A flow that a client sends: checked, and every problem told in the words of the exception tree."""

from omniflow.errors import BadFlow, Problem
from omniflow.v1.flow_pb2 import Flow
from omniflow_core import FlowProblem, check_flow


def require_valid(flow: Flow) -> None:
    """Raises `BadFlow` with every problem."""
    problems = check_flow(flow.SerializeToString())
    if problems:
        raise BadFlow.of(flow.name, [_problem(flow, problem) for problem in problems])


def _problem(flow: Flow, problem: FlowProblem) -> Problem:
    """The place goes into the words. It names a file of the client: the scheduler must not open one of that name."""
    node = flow.nodes[problem.node] if problem.node is not None and problem.node < len(flow.nodes) else None
    message = problem.message
    if node is not None and node.source.line:
        message = f"{message} ({node.source.file}:{node.source.line})"
    return Problem(problem.code, message, problem.cure, node=node.name if node is not None else "")
