"""The trivial flow, and one that waits for a busy role."""

from waiting_roles import Busy, Echo

from omniflow.flow import flow, use
from omniflow.types import Text

first = use(Echo, "first")
second = use(Echo, "second")
third = use(Echo, "third")
busy = use(Busy, "busy")


@flow
def trivial(payload: Text) -> Text:
    """Three hops, one value each."""
    return third.echo(second.echo(first.echo(payload)))


@flow
def held(start: Text) -> Text:
    """Waits."""
    return busy.wait(start)
