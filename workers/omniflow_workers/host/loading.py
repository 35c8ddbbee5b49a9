"""From the names in a worker's configuration to loaded roles."""

import importlib
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from omniflow.errors import InvalidArgument
from omniflow.roles import Role, RoleContext, RoleSpec, add_facts, describe, spec_of
from omniflow.v1.cluster_pb2 import RoleInfo
from omniflow_workers.config import RoleConfig
from omniflow_workers.host.not_loaded import not_loaded

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NamedRole:
    """A role class and what this worker calls it."""

    name: str
    role_class: type[Role]
    config: RoleConfig


@dataclass(frozen=True, slots=True)
class LoadedRole:
    """A role that is ready to run."""

    name: str
    role: Role
    spec: RoleSpec

    def info(self) -> RoleInfo:
        """What to register, with what is known only now that it is loaded. Raises BadRole."""
        info = describe(type(self.role), self.name)
        add_facts(info, self.role)
        return info


def resolve_roles(configs: Sequence[RoleConfig]) -> list[NamedRole]:
    """Imports the classes; nothing heavy yet. Raises InvalidArgument or RoleNotLoaded naming the wrong entry."""
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
        describe(role_class)  # a mistake in its methods is told before anything is loaded
        roles.append(NamedRole(name, role_class, config))
    return roles


def load_roles(
    roles: Sequence[NamedRole], worker: str, device: str, cache: Path, cluster: str = ""
) -> list[LoadedRole]:
    """Makes and loads each role, one after the other. Raises RoleNotLoaded, whatever `load` raises."""
    loaded: list[LoadedRole] = []
    for named in roles:
        started = time.monotonic()
        context = RoleContext(worker=worker, device=device, options=named.config.options, cache=cache, cluster=cluster)
        try:
            role = _on_its_own_thread(named, context)
        except Exception as error:
            raise not_loaded(named.name, f"roles.{named.name}", error) from error
        log.info("role %s loaded in %.1f s", named.name, time.monotonic() - started)
        loaded.append(LoadedRole(named.name, role, spec_of(named.role_class)))
    return loaded


def _on_its_own_thread(named: NamedRole, context: RoleContext) -> Role:
    """Makes and loads the role on a thread that ends with it.

    A thread that computes gets helpers of its own from OpenMP, which stay as long as it does. Were it the main thread,
    its idle helpers and those of the thread that serves the role would together be more than there are processors, and
    libgomp would then have all of them sleep between parallel regions instead of spin: measured on two cores, a token
    of a 135 M model took 62 ms instead of 38.
    """

    def make() -> Role:
        role = named.role_class()
        role.load(context)
        return role

    with ThreadPoolExecutor(1, thread_name_prefix=f"{named.name}-load") as thread:
        return thread.submit(make).result()


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
    except Exception as error:
        raise not_loaded(path, field, error) from error
    if not (isinstance(found, type) and issubclass(found, Role)):
        what = "is no subclass of omniflow.Role" if found is not None else "does not exist"
        raise InvalidArgument(f"{path!r} {what}", field=field, cure="name a role class as module:Class")
    return found
