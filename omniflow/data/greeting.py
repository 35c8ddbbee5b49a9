"""The first words over a connection to a data service."""

from __future__ import annotations

from omniflow.data.framing import Framed
from omniflow.v1.data_pb2 import DataHello, DataReply, DataRequest

PROTOCOL = 1


def greet(end: Framed, hello: DataHello, patience: float) -> DataReply:
    """Says who dials; the answer, a welcome or an error. Raises `HungUp`, `TimeoutError`, `BadFrame`, and
    protobuf's DecodeError."""
    hello.protocol = PROTOCOL
    end.send(DataRequest(id=1, hello=hello).SerializeToString(), patience)
    return DataReply.FromString(end.receive(patience))
