"""From the names in a worker's configuration to loaded roles."""

import importlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omniflow.errors import InvalidArgument, OmniFlowError
from omniflow.roles import Role, RoleContext, RoleSpec, describe, spec_of
from omniflow.v1.cluster_pb2 import RoleInfo
from omniflow_workers.config import RoleConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NamedRole:
    """A role class and what this worker calls it."""

    name: str
    role_class: type[Role]
    config: RoleConfig

    def info(self) -> RoleInfo:
        """What to register. Raises BadRole."""
        return describe(self.role_class, self.name)


@dataclass(frozen=True, slots=True)
class LoadedRole:
    """A role that is ready to run."""

    name: str
    role: Role
    spec: RoleSpec


def resolve_roles(configs: Sequence[RoleConfig]) -> list[NamedRole]:
    """Imports the classes; nothing heavy yet. Raises InvalidArgument naming the entry that is wrong."""
    roles: list[NamedRole] = []
    for index, config in enumerate(configs):
        field = f"roles[{index}].class"
        role_class = _import(config.class_path, field)
        name = config.name or role_class.name
        if any(name == other.name for other in roles):
            raise InvalidArgument(
                f"two roles are called {name!r}",
                field=field,
                cure="give one of them another `name`",
            )
        roles.append(NamedRole(name, role_class, config))
    return roles


def load_roles(roles: Sequence[NamedRole], worker: str, device: str, cache: Path) -> list[LoadedRole]:
    """Makes and loads each role, one after the other. Raises what `load` raises, naming the role."""
    loaded: list[LoadedRole] = []
    for named in roles:
        started = time.monotonic()
        role = named.role_class()
        try:
            role.load(RoleContext(worker=worker, device=device, options=named.config.options, cache=cache))
        except OmniFlowError as error:
            raise InvalidArgument(
                f"role {named.name!r} does not load: {error.message}",
                field=f"roles.{named.name}.{error.field}".rstrip("."),
                cause=error.cause,
                cure=error.cure,
            ) from error
        log.info("role %s loaded in %.1f s", named.name, time.monotonic() - started)
        loaded.append(LoadedRole(named.name, role, spec_of(named.role_class)))
    return loaded


def _import(path: str, field: str) -> type[Role]:
    module_name, _, class_name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise InvalidArgument(
            f"the module of {path!r} cannot be imported",
            field=field,
            cause=str(error),
            cure="install it in the worker's environment, or put its folder on PYTHONPATH",
        ) from error
    if not (isinstance(found, type) and issubclass(found, Role)):
        what = "is no subclass of omniflow.Role" if found is not None else "does not exist"
        raise InvalidArgument(f"{path!r} {what}", field=field, cure="name a role class as module:Class")
    return found
