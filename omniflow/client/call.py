"""The Connect call: messages both ways through the core, for gRPC's own Python library costs several times as much.

There a message passes three threads at either end; here it is one wake-up, however many have come
(docs/control-path.md).
"""

import asyncio
from typing import Any

import grpc
import grpc.aio

import omniflow_core as core

_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class Call:
    """A gRPC call with a stream of serialized messages each way. Belongs to one event loop; `close` it."""

    def __init__(self, address: str, method: str, *, connect_timeout: float) -> None:
        """`address`: HOST:PORT; `method`: "/package.Service/Method"."""
        self._core = core.Call(address, method, connect_ms=max(1, round(connect_timeout * 1000)))
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._loop.add_reader(self._core.fileno(), self._wake)

    def write(self, message: bytes) -> None:
        """Sends it behind those that wait."""
        self._core.send(message)

    async def read(self) -> list[bytes]:
        """All that has come, at least one message; none at the end. Raises `grpc.aio.AioRpcError`."""
        while True:
            messages = self._core.take()
            if messages:
                return messages
            status = self._core.status()
            if status is not None:
                if status[0] == 0:
                    return []
                raise _failure(*status)
            self._waiter = self._loop.create_future()
            await self._waiter

    def close(self) -> None:
        """Cancels it, if it goes on."""
        self._loop.remove_reader(self._core.fileno())
        self._core.cancel()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _failure(code: int, message: str, binary: list[tuple[str, bytes]]) -> grpc.aio.AioRpcError:
    known = _CODES.get(code, grpc.StatusCode.UNKNOWN)
    nothing: Any = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(known, nothing, grpc.aio.Metadata(*binary), message, "")
