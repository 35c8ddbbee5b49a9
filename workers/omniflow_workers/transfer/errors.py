"""What can go wrong between an owner of pages and a borrower. `StalePage` is the core's."""
# ruff: noqa: N818  named after what happened, as the core's errors are

from __future__ import annotations

from omniflow.errors import OmniFlowError
from omniflow.v1.data_pb2 import DataError
from omniflow_core import StalePage


class TransferError(OmniFlowError):
    """The root. None of these means more than: compute the pages yourself."""


class PeerLost(TransferError):
    """The worker cannot be reached, has gone, or does not answer."""


class PeerMisbehaved(TransferError):
    """The worker says what cannot be: a message that is none, sizes that contradict each other. Its connection has been
    closed; nothing that it said was used."""


class Refused(TransferError):
    """The owner has answered with an error. `code` of data.proto says which."""

    def __init__(
        self, code_number: DataError.Code.ValueType, message: str, *, worker: str = "", cure: str = ""
    ) -> None:
        super().__init__(message, worker=worker, cure=cure)
        self.code_number = code_number


class LeaseGone(TransferError):
    """The lease has ended: released, revoked or expired."""


class PullFailed(TransferError):
    """The pages did not come, or not all of them. Nothing of it may be used, and nothing stays pinned."""


def stale(message: str) -> StalePage:
    """`StalePage` where another worker found it, which does not say which page it was."""
    error = StalePage(message)
    error.page, error.generation, error.current = 0, 0, 0
    return error
