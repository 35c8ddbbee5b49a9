"""From a file to a checked model: every mistake is named with file, line, key and cure."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from omniflow.config.cluster import ClusterConfig, WorkerConfig
from omniflow.config.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[str | int, ...]


def load_cluster(path: Path | str) -> ClusterConfig:
    """Reads a cluster file. Relative paths in it are relative to the file. Raises `ConfigError`."""
    file = Path(path)
    return _resolve_paths(parse_strict(ClusterConfig, file), file.resolve().parent).read_from(file.resolve())


def parse_strict(model: type[Model], file: Path) -> Model:
    """`file` (YAML, or JSON, which is YAML too) as a `model`. Raises `ConfigError` that lists every mistake in it."""
    content, lines = read_mapping(file)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(model, file, lines, error))) from None


def read_mapping(file: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The file's keys and values, and the line of each key. Raises `ConfigError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    try:
        tree = yaml.compose(text, Loader=yaml.CSafeLoader)
        content = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{file}{place}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {error}") from None
    if not isinstance(content, dict):
        found = "nothing" if content is None else type(content).__name__
        raise ConfigError(f"{file}: a mapping of keys is expected, found {found}")
    return content, dict(_walk(file, tree, ()))


def line_of(file: Path, path: KeyPath) -> int | None:
    """In which line of the file this key, or the section around it, is; None where that cannot be told."""
    try:
        return _line(read_mapping(file)[1], path)
    except ConfigError:
        return None


def _walk(file: Path, node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node, yaml.MappingNode):
        first_lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in first_lines and name != "<<":
                raise ConfigError(
                    f"{file}:{line}: '{_dotted((*path, name))}' is set twice (first in line {first_lines[name]})"
                )
            first_lines[name] = line
            yield (*path, name), line
            yield from _walk(file, value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value.start_mark.line + 1
            yield from _walk(file, value, (*path, index))


def _explain(model: type[BaseModel], file: Path, lines: Mapping[KeyPath, int], error: ValidationError) -> Iterator[str]:
    problems = error.errors(include_url=False)
    places = [tuple(problem["loc"]) for problem in problems]
    for problem, path in zip(problems, places, strict=True):
        if problem["type"] == "too_short" and any(len(other) > len(path) == _common(other, path) for other in places):
            continue  # its items are wrong, not missing: they have errors of their own
        where = f"{file}:{line}" if (line := _line(lines, path)) else str(file)
        yield f"{where}: {_sentence(model, path, problem)}"


def _sentence(model: type[BaseModel], path: KeyPath, problem: Any) -> str:
    key = _dotted(path)
    if problem["type"] == "extra_forbidden":
        known = _known_keys(model, path[:-1])
        near = difflib.get_close_matches(str(path[-1]), known, n=3, cutoff=0.6)
        hint = f"did you mean {_or(near)}?" if near else f"known here: {', '.join(known)}"
        return f"unknown key '{key}'; {hint}"
    if problem["type"] == "missing":
        return f"'{key}' is missing"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"'{key}': {message}" if key else message
    shown = json.dumps(problem["input"], default=str)
    return f"'{key}' is {shown if len(shown) < 80 else shown[:77] + '...'}: {message[:1].lower()}{message[1:]}"


def _line(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _common(left: KeyPath, right: KeyPath) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    current: type[BaseModel] | None = model
    for step in path:
        if current is None:
            return []
        if isinstance(step, int):
            continue
        field = next((field for name, field in current.model_fields.items() if step in (name, field.alias)), None)
        current = _model_in(field.annotation) if field else None
    return [field.alias or name for name, field in current.model_fields.items()] if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section inside `Section`, `Section | None`, `tuple[Annotated[Section, ...], ...]` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_in(argument))), None)


def _dotted(path: KeyPath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _or(names: Sequence[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def _resolve_paths(config: ClusterConfig, folder: Path) -> ClusterConfig:
    etcd = config.etcd
    if etcd.data is not None:
        etcd = etcd.model_copy(update={"data": _absolute(etcd.data, folder)})
    scheduler = config.scheduler
    journals = {"journal": scheduler.journal, "standby_journal": scheduler.standby_journal}
    absolute = {key: _absolute(path, folder) for key, path in journals.items() if path is not None}
    scheduler = scheduler.model_copy(update=absolute)
    return config.model_copy(
        update={
            "scheduler": scheduler,
            "run": _absolute(config.run, folder) if config.run else None,
            "cache": _absolute(config.cache, folder) if config.cache else None,
            "etcd": etcd,
            "tls": config.tls.beside(folder) if config.tls else None,
            "flows": tuple(_absolute_flow(target, folder) for target in config.flows),
            "workers": tuple(_absolute_worker(worker, folder) for worker in config.workers),
        }
    )


def _absolute_worker(worker: WorkerConfig, folder: Path) -> WorkerConfig:
    if worker.retention_folder is None:
        return worker
    return worker.model_copy(update={"retention_folder": _absolute(worker.retention_folder, folder)})


def _absolute(path: Path, folder: Path) -> Path:
    expanded = path.expanduser()
    return expanded if expanded.is_absolute() else folder / expanded


def _absolute_flow(target: str, folder: Path) -> str:
    """`path.py` and `path.py:name` become absolute; `module:name` stays."""
    file, colon, name = target.partition(":")
    return f"{_absolute(Path(file), folder)}{colon}{name}" if file.endswith(".py") else target
