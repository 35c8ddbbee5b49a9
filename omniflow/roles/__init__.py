"""Writing a role: a class with typed methods. What a worker needs to serve one is here too."""

from omniflow.roles.activation import Activation, CoreActivation, CoreReady, ReadyQueue
from omniflow.roles.adapter import TypedActivation, TypedQueue
from omniflow.roles.description import (
    RESULT,
    BadRole,
    MethodSpec,
    ParameterSpec,
    PortSpec,
    RoleSpec,
    describe,
    spec_of,
)
from omniflow.roles.facts import HoldsModel, HoldsWeights, add_facts
from omniflow.roles.failure import InvalidInput, QueueClosed, RoleError, failure_of
from omniflow.roles.frame import with_state
from omniflow.roles.invoke import current, invoke
from omniflow.roles.method import MethodOptions, method
from omniflow.roles.role import EngineRole, Role, RoleContext

__all__ = [
    "RESULT",
    "Activation",
    "BadRole",
    "CoreActivation",
    "CoreReady",
    "EngineRole",
    "HoldsModel",
    "HoldsWeights",
    "InvalidInput",
    "MethodOptions",
    "MethodSpec",
    "ParameterSpec",
    "PortSpec",
    "QueueClosed",
    "ReadyQueue",
    "Role",
    "RoleContext",
    "RoleError",
    "RoleSpec",
    "TypedActivation",
    "TypedQueue",
    "add_facts",
    "current",
    "describe",
    "failure_of",
    "invoke",
    "method",
    "spec_of",
    "with_state",
]
