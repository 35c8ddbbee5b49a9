"""What a model developer subclasses: a component with typed methods, and no networking in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from omniflow.errors import InvalidArgument
from omniflow.roles.activation import ReadyQueue

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class RoleContext:
    """What a worker tells the role that it loads.

    `worker`: its name; `device`: "cpu", "cuda:0"; `options`: the role's part of the cluster file; `cache`: a folder
    that outlives the worker, for converted weights and the like; `cluster`: what no other cluster on the host is
    called, empty outside of one.
    """

    worker: str = "local"
    device: str = "cpu"
    options: Mapping[str, object] = field(default_factory=dict)
    cache: Path = Path.home() / ".cache" / "omniflow"
    cluster: str = ""

    def parse(self, model: type[M]) -> M:
        """The options as `model`. Raises `InvalidArgument` naming the first key that is unknown or wrong."""
        from pydantic import ValidationError  # slow to import, and flows need only the class

        unknown = [key for key in self.options if key not in model.model_fields]
        if unknown:
            known = ", ".join(model.model_fields) or "none"
            raise InvalidArgument(f"unknown option {unknown[0]!r}", field=unknown[0], cure=f"known options: {known}")
        try:
            return model.model_validate(dict(self.options))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise InvalidArgument(
                f"option {key!r}: {first['msg']}", field=key, cure="correct the cluster file"
            ) from error


class Role:
    """A kind of component. Subclasses publish functions with `@method`.

    `name`: what flows and clusters call it, the class's name in snake_case unless set; `concurrency`: how many
    activations one worker runs at once, each on a thread of its own.
    """

    name: ClassVar[str] = "role"
    concurrency: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    def load(self, context: RoleContext) -> None:
        """Runs once in the worker before the first activation: heavy imports and weights belong here."""

    def unload(self) -> None:
        """Runs once when the worker leaves, unless a method of the role has still not returned."""


class EngineRole(Role):
    """A role that batches activations itself. Its `@method` functions only declare what it serves."""

    def serve(self, ready: ReadyQueue) -> None:
        """Runs on a thread of its own until `ready.take` raises `QueueClosed`.

        Activations of all its methods come through `ready`. Each one must be finished or failed.
        """
        raise NotImplementedError
