"""Writing a flow: a Python function over roles, recorded once into a graph that is checked before anything runs."""

from omniflow.flow.definition import Flow, flow
from omniflow.flow.fanning import collect, each, merge, unordered, zip_streams
from omniflow.flow.load import load_flows
from omniflow.flow.looping import loop
from omniflow.flow.options import options
from omniflow.flow.routing import any_of, given, route
from omniflow.flow.use import use

__all__ = [
    "Flow",
    "any_of",
    "collect",
    "each",
    "flow",
    "given",
    "load_flows",
    "loop",
    "merge",
    "options",
    "route",
    "unordered",
    "use",
    "zip_streams",
]
