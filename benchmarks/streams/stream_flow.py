"""Two hops of frames; past the middle worker; to a client; and what keeps the middle worker's interpreter."""

from stream_roles import Holder, Relay, Sink, Source

from omniflow.flow import flow, use
from omniflow.types import Stream, Text

source = use(Source, "source")
relay = use(Relay, "relay")
sink = use(Sink, "sink")
holder = use(Holder, "holder")


@flow
def two_hops(start: Text, *, count: int = 10_000) -> Text:
    """How many frames came to the sink, and when."""
    return sink.count(relay.passed(source.frames(start, count=count)))


@flow
def one_hop(start: Text, *, count: int = 1) -> Text:
    """Past the worker in the middle."""
    return sink.count(source.frames(start, count=count))


@flow
def to_client(start: Text, *, count: int = 10_000) -> Stream[Text]:
    """Straight to whoever asked."""
    return source.frames(start, count=count)


@flow
def held(start: Text, *, seconds: float = 5.0) -> Text:
    """The worker in the middle has no time."""
    return holder.hold(start, seconds=seconds)
