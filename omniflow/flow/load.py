"""Flows from a file or module: "FILE.py", "FILE.py:name", "package.module", "package.module:name"."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from omniflow.errors import BadFlow, InvalidArgument, OmniFlowError, Problem, Source, UnknownFlow
from omniflow.flow.definition import Flow
from omniflow.flow.use import suggestion


def load_flows(target: str) -> list[Flow[..., Any]]:
    """The flows that `target` defines, in order; only the named one where it names one.

    Running the file is importing it: its folder is importable meanwhile and after. Raises `InvalidArgument` (no such
    file or module), `BadFlow` (it raises on import, or defines no flow) or `UnknownFlow`.
    """
    place, _, name = target.partition(":")
    module = _from_file(place) if place.endswith(".py") else _from_name(place)
    known = {flow.name: flow for flow in vars(module).values() if isinstance(flow, Flow)}
    if name:
        if name not in known:
            raise UnknownFlow(f"{place} has no flow `{name}`", field=target, cure=suggestion(name, known, "its flows"))
        return [known[name]]
    own = [flow for flow in known.values() if flow.function.__module__ == module.__name__]
    if not own:
        raise BadFlow(f"{place} defines no flow", field=target, cure="decorate a function with @flow")
    return own


def _from_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise InvalidArgument(f"there is no file {place}", field=place, cure="check the path")
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{place} is no Python file", field=place, cure="name a .py file")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    # Annotations are resolved by way of sys.modules, so the module has to be there while it runs.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Exception):
            raise _import_failed(place, str(path), error) from error
        raise
    return module


def _from_name(place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise InvalidArgument(
                f"there is no module `{place}`", field=place, cure="name a file (FILE.py) or an importable module"
            ) from error
        raise _import_failed(place, "", error) from error
    except Exception as error:
        raise _import_failed(place, "", error) from error


def _import_failed(place: str, file: str, error: Exception) -> BadFlow:
    if isinstance(error, BadFlow) and error.problems:
        return BadFlow.of(place, error.problems)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        source: Source | None = Source(error.filename, error.lineno)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not file or frame.filename == file]
        source = Source(own[-1].filename, own[-1].lineno or 0) if own else None
    return BadFlow.of(place, [Problem("import-failed", *_what_and_cure(error), source)])


def _what_and_cure(error: Exception) -> tuple[str, str]:
    match error:
        case IndentationError():
            return _not_python(error), "indent this line as its block is, with spaces alone or tabs alone"
        case SyntaxError():
            return _not_python(error), "correct the syntax of this line, or of the one before it"
        case ModuleNotFoundError():
            missing = error.name or "the module"
            return (
                f"running it raised {type(error).__name__}: {error}",
                f"install `{missing}`, or correct its name; what only a role needs is imported in the role's load()",
            )
        case OmniFlowError() if error.cure:
            return error.message, error.cure
        case _:
            return f"running it raised {type(error).__name__}: {error}", "correct this line"


def _not_python(error: SyntaxError) -> str:
    return f"it is not Python: {type(error).__name__}: {error.msg}"
