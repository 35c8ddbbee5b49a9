"""Flows over three roles that do nothing, each in a worker process of its own."""

from trivial_roles import Echo

from omniflow.flow import flow, use
from omniflow.types import Stream, Text

first = use(Echo, "first")
second = use(Echo, "second")
third = use(Echo, "third")


@flow
def trivial(payload: Text) -> Text:
    """Three hops, one value each."""
    return third.echo(second.echo(first.echo(payload)))


@flow
def trivial_words(payload: Text) -> Stream[Text]:
    """Two hops, then a stream."""
    return third.words(second.echo(first.echo(payload)))
