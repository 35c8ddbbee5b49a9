"""Questions to the scheduler from commands that have no event loop."""

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from omniflow.cli.locate import Target, explain_unreachable
from omniflow.client import SyncClient
from omniflow.errors import Unavailable

T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0


def ask(target: Target, question: Callable[[SyncClient], T]) -> T:
    """The answer. Raises `OmniFlowError`."""
    try:
        with SyncClient(target.address, connect_timeout=CONNECT_TIMEOUT_S) as client:
            return question(client)
    except Unavailable as error:
        raise explain_unreachable(error, target) from None


def message_json(message: Message, indent: int | None = None) -> str:
    """A message as JSON, with the names of the .proto file; numbers that are zero are there too."""
    return MessageToJson(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=indent
    )
