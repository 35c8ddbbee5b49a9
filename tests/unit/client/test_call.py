"""The client's call through the core, against gRPC's own server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from omniflow.client.call import Call

METHOD = "/test.Service/Exchange"
LARGE = 20 << 20
PATIENCE = 30.0

Context = grpc.aio.ServicerContext[Any, Any]


async def echo(requests: AsyncIterator[bytes], context: Context) -> None:
    async for message in requests:
        if message == b"refuse":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "fünf %", (("why-bin", b"\x00\xff\x01"),))
        if message == b"end":
            return
        await context.write(message)


@asynccontextmanager
async def served(**methods: Any) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    handlers = {name: grpc.stream_stream_rpc_method_handler(method) for name, method in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def called(address: str, method: str = METHOD) -> AsyncIterator[Call]:
    call = Call(address, method, connect_timeout=PATIENCE)
    try:
        async with asyncio.timeout(PATIENCE):
            yield call
    finally:
        call.close()


async def read(call: Call, count: int) -> list[bytes]:
    messages: list[bytes] = []
    while len(messages) < count:
        messages += await call.read()
    return messages


async def failed(call: Call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    return raised.value


async def test_messages_of_any_size_come_back_whole_and_in_order() -> None:
    sent = [b"", b"a", b"x" * LARGE, *(b"%d" % number for number in range(1_000))]
    async with served(Exchange=echo) as address, called(address) as call:
        for message in sent:
            call.write(message)
        assert await read(call, len(sent)) == sent


async def test_a_call_that_ends_well_says_so_after_its_last_message() -> None:
    async with served(Exchange=echo) as address, called(address) as call:
        call.write(b"last")
        call.write(b"end")
        assert await call.read() == [b"last"]
        assert await call.read() == []


async def test_a_refusal_comes_with_its_words_and_with_what_was_sent_along() -> None:
    async with served(Exchange=echo) as address, called(address) as call:
        call.write(b"refuse")
        error = await failed(call)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == "fünf %"
        sent_along: Any = error.trailing_metadata()
        assert list(sent_along) == [("why-bin", b"\x00\xff\x01")]


async def test_an_unknown_method_is_unimplemented() -> None:
    async with served(Exchange=echo) as address, called(address, "/test.Service/Other") as call:
        assert (await failed(call)).code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no such host:1", "nowhere.invalid:1"])
async def test_who_cannot_be_reached_is_unavailable(address: str) -> None:
    async with called(address) as call:
        assert (await failed(call)).code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INVALID_ARGUMENT}


async def test_a_server_that_goes_is_a_break() -> None:
    begun = asyncio.Event()

    async def wait(requests: AsyncIterator[bytes], context: Context) -> None:
        await context.write(b"begun")
        await begun.wait()

    async with served(Exchange=wait) as address:
        call = Call(address, METHOD, connect_timeout=PATIENCE)
        assert await call.read() == [b"begun"]
    assert (await failed(call)).code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    call.close()


async def test_closing_tells_the_server() -> None:
    gone = asyncio.Event()

    async def wait(requests: AsyncIterator[bytes], context: Context) -> None:
        try:
            await context.write(b"begun")
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with served(Exchange=wait) as address:
        async with called(address) as call:
            assert await call.read() == [b"begun"]
        async with asyncio.timeout(PATIENCE):
            await gone.wait()
