"""A tensor over two hops, as in benchmarks/peers/sglang_omni_stages.py; and one hop, whose parts are timed."""

from tensor_roles import Maker, Relay, Taker

from omniflow.flow import flow, use
from omniflow.types import Tensor, Text

maker = use(Maker, "maker")
relay = use(Relay, "relay")
taker = use(Taker, "taker")


@flow
def two_hops(size: Text) -> Text:
    """How many bytes came to the last role."""
    return taker.count(relay.passed(maker.make(size)))


@flow
def one_hop(size: Text) -> Text:
    """The same of a tensor that its maker writes where the next role reads it."""
    return taker.count(maker.fill(size))


@flow
def handed_over(size: Text, *, count: int = 20) -> Tensor:
    """Seconds that each of `count` tensors took to be written, and then to be in the other role's hands."""
    return taker.timed(maker.timed(size, count=count))
