"""The Rust core of Omni-Flow. Everything here is implemented in `core-rs/`; `_native.pyi` documents it."""

from omniflow_core._native import *  # noqa: F403 - the module's list is the public one
from omniflow_core._native import __version__ as __version__
