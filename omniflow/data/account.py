"""Asking a worker where its bytes are."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from omniflow.config import TlsConfig
from omniflow.data.addresses import dial
from omniflow.data.framing import BadFrame, HungUp
from omniflow.data.greeting import greet
from omniflow.errors import Unavailable
from omniflow.v1.data_pb2 import AccountRequest, DataHello, DataReply, DataRequest, MemoryAccount


def ask_account(
    worker: str, addresses: Sequence[str], cluster: str, *, tls: TlsConfig | None = None, patience: float = 5.0
) -> MemoryAccount:
    """The account of a worker, from the first of its data addresses (`WorkerInfo.data_addresses`) that answers.

    Raises `Unavailable` saying what each address had to say, when none does within `patience` seconds each.
    """
    said: list[str] = []
    for address in addresses:
        try:
            return _ask(address, worker, cluster, tls, patience)
        except (HungUp, BadFrame, DecodeError, TimeoutError, ValueError) as error:
            said.append(f"{address}: {error}")
    raise Unavailable(
        f"worker {worker} does not say where its memory is",
        worker=worker,
        cause="\n".join(said) or "it has registered no data address",
        cure="see whether it runs (`omniflow status`), and whether its data addresses are reachable from here",
    )


def _ask(address: str, worker: str, cluster: str, tls: TlsConfig | None, patience: float) -> MemoryAccount:
    end = dial(address, tls, patience)
    try:
        welcome = greet(end, DataHello(cluster=cluster, to=worker), patience)
        if welcome.WhichOneof("reply") != "welcome":
            raise HungUp(welcome.error.message or "it says something else than welcome")
        end.send(DataRequest(id=2, account=AccountRequest()).SerializeToString(), patience)
        reply = DataReply.FromString(end.receive(patience))
        if reply.WhichOneof("reply") != "account":
            raise HungUp(reply.error.message or "it answers something else")
        return reply.account
    finally:
        end.close()
