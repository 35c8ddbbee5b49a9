"""What is known of a role only once it is loaded: which weights it holds, and how their KV lies in pages."""

from typing import Protocol, runtime_checkable

from omniflow.roles.role import Role
from omniflow.v1.cluster_pb2 import PageLayout, RoleInfo


@runtime_checkable
class Weights(Protocol):
    """`fingerprint`: equal only for equal weights."""

    @property
    def fingerprint(self) -> str: ...


@runtime_checkable
class Pages(Protocol):
    """How KV lies in pages. Two workers may share pages only when `describe()` and `page_tokens` are equal."""

    @property
    def page_tokens(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def page_bytes(self) -> int: ...
    def describe(self) -> str:
        """A stable text, equal for equal layouts."""


@runtime_checkable
class HoldsWeights(Protocol):
    """A role that is built around one set of weights says so with this property, valid after `load`."""

    @property
    def model(self) -> Weights: ...


@runtime_checkable
class HoldsModel(HoldsWeights, Protocol):
    """One whose model has a KV cache says how that lies, too."""

    @property
    def layout(self) -> Pages: ...


def add_facts(info: RoleInfo, role: Role) -> None:
    """Completes what a worker registers for `role`, which is loaded. Nothing to add for one that holds no weights."""
    # Authors may call other things `model` and `layout` too.
    if not (isinstance(role, HoldsWeights) and isinstance(role.model, Weights)):
        return
    info.weights_fingerprint = role.model.fingerprint
    if not (isinstance(role, HoldsModel) and isinstance(role.layout, Pages)):
        return
    layout = role.layout
    info.page_layout.CopyFrom(
        PageLayout(
            page_tokens=layout.page_tokens,
            layers=layout.layers,
            description=layout.describe(),
            page_bytes=layout.page_bytes,
        )
    )
