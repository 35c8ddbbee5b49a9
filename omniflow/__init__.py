"""Omni-Flow: serving models made of several unlike parts.

Flows are functions decorated with `@flow`, over roles, which are classes with typed methods.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omniflow.client import Client, SyncClient
    from omniflow.errors import OmniFlowError
    from omniflow.flow import (
        Flow,
        any_of,
        collect,
        each,
        flow,
        given,
        loop,
        merge,
        options,
        route,
        unordered,
        use,
        zip_streams,
    )
    from omniflow.types import Audio, Choice, Choices, Image, Stream, Tensor, Text, Video, record

__all__ = [
    "Audio",
    "Choice",
    "Choices",
    "Client",
    "Flow",
    "Image",
    "OmniFlowError",
    "Stream",
    "SyncClient",
    "Tensor",
    "Text",
    "Video",
    "any_of",
    "collect",
    "each",
    "flow",
    "given",
    "loop",
    "merge",
    "options",
    "record",
    "route",
    "unordered",
    "use",
    "zip_streams",
]

# Names are fetched at first use: every process and every `omniflow --help` imports this package, and few need NumPy,
# gRPC and the flow language for what they do.
_HOMES = {
    "omniflow.client": ("Client", "SyncClient"),
    "omniflow.errors": ("OmniFlowError",),
    "omniflow.flow": (
        "Flow",
        "any_of",
        "collect",
        "each",
        "given",
        "loop",
        "merge",
        "options",
        "route",
        "unordered",
        "use",
        "zip_streams",
    ),
    "omniflow.types": ("Audio", "Choice", "Choices", "Image", "Stream", "Tensor", "Text", "Video", "record"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


class _Package(ModuleType):
    """`omniflow.flow` is the decorator, though a sub-package has the same name."""

    @property
    def flow(self) -> Any:
        return importlib.import_module("omniflow.flow.definition").flow

    @flow.setter
    def flow(self, package: ModuleType) -> None:
        """The import system's own assignment of the sub-package, which is found in `sys.modules` anyhow."""

    def __getattr__(self, name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
