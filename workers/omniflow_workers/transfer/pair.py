"""A process group of two, for the pages that one sends to the other. Made when it is first needed.

gloo on CPUs; NCCL between CUDA devices, which no GPU has run yet.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Protocol

from omniflow_workers.transfer.errors import PullFailed

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store


class Work(Protocol):
    """Something that moves."""

    def wait(self, timeout: datetime.timedelta) -> bool: ...


OWNER, BORROWER = 0, 1
_TAGS = 1 << 15
_CHUNKS = 1 << 16


def tag_of(pull: int, chunk: int) -> int:
    """Names what is sent: a chunk of an earlier pull is never taken for one of a later."""
    return (pull % _TAGS) * _CHUNKS + chunk % _CHUNKS


class Pair:
    """One end. A failure breaks it for good: close it, and make another one."""

    def __init__(self, backend: str, store: Store, rank: int, host: str, patience: float) -> None:
        """Returns when the other end is there, too. `host`: this side's address, by which the other one reaches it.

        Raises `PullFailed` after `patience` seconds, or when the other one has gone.
        """
        self._other = 1 - rank
        self._moving: dict[int, Work] = {}
        within = datetime.timedelta(seconds=patience)
        try:
            self._group = _gloo(store, rank, host, within) if backend == "gloo" else _nccl(store, rank, within)
        except RuntimeError as error:  # all of torch's errors are
            raise PullFailed("the two workers do not meet in a process group", cause=_first_line(error)) from error

    def send(self, chunk: torch.Tensor, tag: int) -> None:
        """Begins to send. The chunk must not change until `wait` has returned. Raises `PullFailed`."""
        try:
            self._moving[tag] = self._group.send([chunk], self._other, tag)
        except RuntimeError as error:
            raise PullFailed("a chunk of pages cannot be sent", cause=_first_line(error)) from error

    def receive(self, chunk: torch.Tensor, tag: int) -> None:
        """Begins to receive."""
        try:
            self._moving[tag] = self._group.recv([chunk], self._other, tag)
        except RuntimeError as error:
            raise PullFailed("a chunk of pages cannot be received", cause=_first_line(error)) from error

    def wait(self, tag: int, patience: float) -> None:
        """Until that chunk has moved. Raises `PullFailed` after `patience` seconds, or when the other end has gone:
        then the pair is broken."""
        work = self._moving.pop(tag)
        try:
            work.wait(datetime.timedelta(seconds=max(0.001, patience)))
        except RuntimeError as error:
            raise PullFailed("a chunk of pages does not come, or does not leave", cause=_first_line(error)) from error
        finally:
            del work  # one that an error's traceback kept would keep the connection open

    def close(self) -> None:
        """Ends it: the other end's waiting fails. What still moves keeps its memory until it has heard."""
        self._moving.clear()
        del self._group


# torch's stubs know neither these classes' constructors nor what they send by.
def _gloo(store: Store, rank: int, host: str, within: datetime.timedelta) -> Any:
    import torch.distributed

    gloo: Any = torch.distributed.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname=host)]
    options._threads = 1
    options._timeout = within
    return gloo(store, rank, 2, options)


def _nccl(store: Store, rank: int, within: datetime.timedelta) -> Any:
    import torch.distributed

    nccl: Any = torch.distributed.ProcessGroupNCCL
    options = nccl.Options()
    options._timeout = within
    return nccl(store, rank, 2, options)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
