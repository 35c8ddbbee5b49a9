"""Which line of the user's file is being recorded."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from omniflow.errors import Source

_HERE = str(Path(__file__).parent)


def caller() -> Source:
    """The innermost line outside this package: what the user wrote."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def raised_at(trace: TracebackType | None, function: Callable[..., Any]) -> Source | None:
    """The last line of `function` in a traceback."""
    found = None
    while trace is not None:
        if trace.tb_frame.f_code is function.__code__:
            found = Source(trace.tb_frame.f_code.co_filename, trace.tb_lineno, function.__name__)
        trace = trace.tb_next
    return found


def runs_inside(trace: TracebackType | None, owner: type) -> bool:
    """Whether a method of an `owner` was running when it was raised."""
    while trace is not None:
        if isinstance(trace.tb_frame.f_locals.get("self"), owner):
            return True
        trace = trace.tb_next
    return False


@dataclass(frozen=True, slots=True)
class FunctionPlaces:
    """Lines of one function: its `def`, its last `return`, each of its parameters."""

    definition: Source
    returned: Source
    parameters: dict[str, Source] = field(default_factory=dict)


def places_of(function: Callable[..., Any]) -> FunctionPlaces:
    """Where the parts of a function are; all at its first line when its text is not to be had."""
    code = function.__code__

    def at(line: int) -> Source:
        return Source(code.co_filename, line, function.__name__)

    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return FunctionPlaces(at(code.co_firstlineno), at(code.co_firstlineno))
    definition = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    arguments = definition.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    returns = [node.lineno for node in ast.walk(definition) if isinstance(node, ast.Return)]
    return FunctionPlaces(
        definition=at(first + definition.lineno - 1),
        returned=at(first + max(returns, default=definition.lineno) - 1),
        parameters={each.arg: at(first + each.lineno - 1) for each in named},
    )
