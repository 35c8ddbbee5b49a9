"""The flows that a cluster file names, found, compiled, and made known to the cluster."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from omniflow.errors import OmniFlowError
from omniflow.flow import Flow
from omniflow.launch.errors import LaunchError


def compile_flows(folder: Path | None, targets: tuple[str, ...]) -> list[bytes]:
    """Serialized `omniflow.v1.Flow`s. `folder`: where modules beside the cluster file lie.

    Raises `BadFlow` naming the user's line, or `LaunchError` when a target cannot be loaded.
    """
    if targets and folder and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return [flow.compile().SerializeToString() for target in targets for flow in load_flows(target)]


def load_flows(target: str) -> list[Flow[..., object]]:
    """`path.py` or `module`: every flow that it defines; `path.py:name` or `module:name`: that one."""
    source, _, name = target.partition(":")
    module = _load(source, target)
    found = {key: value for key, value in vars(module).items() if isinstance(value, Flow)}
    if name:
        if name not in found:
            known = ", ".join(found) or "none"
            raise LaunchError(f"{source} defines no flow `{name}`", field="flows", cure=f"flows in it: {known}")
        return [found[name]]
    # What it imported from elsewhere is not its own.
    own = {id(flow): flow for flow in found.values() if flow.function.__module__ == module.__name__}
    if not own:
        raise LaunchError(f"{source} defines no flow", field="flows", cure="decorate a function in it with @flow")
    return list(own.values())


def _load(source: str, target: str) -> ModuleType:
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        return _load_file(Path(source))
    except OmniFlowError:
        raise
    except FileNotFoundError:
        raise LaunchError(f"no such file: {source}", field="flows", cure="correct the path in `flows`") from None
    except Exception as error:
        raise LaunchError(
            f"flow {target} cannot be loaded",
            field="flows",
            cause=f"{type(error).__name__}: {error}",
            cure=f"`python {source}` shows where"
            if source.endswith(".py")
            else f"`python -c 'import {source}'` shows where",
        ) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(path)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LaunchError(f"{path} is no Python file", field="flows")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and annotations look their module up by its name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
