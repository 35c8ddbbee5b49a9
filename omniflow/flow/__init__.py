"""Writing a flow: a Python function over roles, recorded once into a graph that is checked before anything runs."""

from omniflow.flow.combinators import any_of, given
from omniflow.flow.definition import Flow, flow
from omniflow.flow.load import load_flows
from omniflow.flow.use import use

__all__ = ["Flow", "any_of", "flow", "given", "load_flows", "use"]
