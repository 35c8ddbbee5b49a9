"""A flow that a client sends: checked, and every problem told in the words of the exception tree."""

from omniflow.errors import BadFlow, Problem
from omniflow.flow.check import check_graph
from omniflow.v1.flow_pb2 import Flow


def require_valid(flow: Flow) -> None:
    """Raises `BadFlow` with every problem."""
    problems = check_graph(flow)
    if problems:
        raise BadFlow.of(flow.name, [_from_afar(problem) for problem in problems])


def _from_afar(problem: Problem) -> Problem:
    """The place goes into the words. It names a file of the client: the scheduler must not open one of that name."""
    message = problem.message
    if problem.source is not None and problem.source.line:
        message = f"{message} ({problem.source.file}:{problem.source.line})"
    return Problem(problem.code, message, problem.cure, node=problem.node)
