"""How processes reach workers' data services (`proto/omniflow/v1/data.proto`): addresses, framing, first words."""

from omniflow.data.account import ask_account
from omniflow.data.addresses import dial, host_and_port, is_ours, is_unix, server_context, unix_name
from omniflow.data.framing import MAX_GREETING_BYTES, MAX_MESSAGE_BYTES, BadFrame, Framed, HungUp
from omniflow.data.greeting import PROTOCOL, greet

__all__ = [
    "MAX_GREETING_BYTES",
    "MAX_MESSAGE_BYTES",
    "PROTOCOL",
    "BadFrame",
    "Framed",
    "HungUp",
    "ask_account",
    "dial",
    "greet",
    "host_and_port",
    "is_ours",
    "is_unix",
    "server_context",
    "unix_name",
]
