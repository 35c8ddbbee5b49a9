"""Bad input gets one typed error that names it and the cure; nothing else notices."""

import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from omniflow.client import Client
from omniflow.errors import (
    BadOutput,
    InvalidArgument,
    OmniFlowError,
    RoleFailed,
    TooLarge,
    UnknownFlow,
    UnknownJob,
    UnknownRole,
)
from omniflow.flow import flow, use
from omniflow.types import Image, Text, encode
from omniflow.v1.job_pb2 import Input, SubmitRequest
from tests.cluster_fixtures.cluster import PuppetCluster
from tests.cluster_fixtures.puppets import Puppet
from tests.cluster_fixtures.submit import error_of, next_job_runs

PICTURE = Path(__file__).parents[2] / "examples" / "speak" / "street_sign.png"

nobody = use(Puppet, "nobody")


@flow
def unserved(text: Text) -> Text:
    return nobody.echo(text)


@pytest.fixture(autouse=True)
async def nothing_else_notices(client: Client) -> AsyncIterator[None]:
    before = await client.cluster_status()
    yield
    await next_job_runs(client)
    after = await client.cluster_status()
    assert [worker.info.incarnation for worker in after.workers] == [
        worker.info.incarnation for worker in before.workers
    ]


def request(name: str, **inputs: Any) -> SubmitRequest:
    given = [Input(name=name, frames=[encode(value)]) for name, value in inputs.items()]
    return SubmitRequest(flow=name, inputs=given, deadline_ms=10_000)


def huge_png(side: int) -> bytes:
    """A sound 1-bit picture of side x side pixels in a few kilobytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer, row = zlib.compressobj(9), bytes(1 + (side + 7) // 8)
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


async def test_an_unknown_flow_is_named(client: Client) -> None:
    with pytest.raises(UnknownFlow) as caught:
        await client.submit("chian", {"text": "x"})
    assert caught.value.field == "flow"
    assert "chian" in caught.value.message
    assert caught.value.cure


async def test_an_unknown_flow_is_named_by_the_scheduler_with_the_one_that_was_meant(shared: PuppetCluster) -> None:
    error = await error_of(shared.address, request("chian", text="x"))
    assert isinstance(error, UnknownFlow)
    assert error.field == "flow"
    assert 'did you mean "chain"?' in error.cure


async def test_an_unknown_role_is_named(client: Client) -> None:
    with pytest.raises(UnknownRole) as caught:
        await client.submit(unserved, {"text": "x"})
    assert "nobody" in caught.value.message
    assert caught.value.node == "nobody.echo"
    assert caught.value.cure


async def test_an_unknown_job_is_named(client: Client) -> None:
    with pytest.raises(UnknownJob) as caught:
        await client.get("job-that-never-was")
    assert caught.value.field == "job"
    assert caught.value.cure


def assert_names(error: OmniFlowError, field: str) -> None:
    assert error.field.removeprefix("inputs.") == field
    assert error.cure


async def test_an_unknown_input_is_named_by_the_client_and_by_the_scheduler(
    client: Client, shared: PuppetCluster
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.submit("chain", {"text": "x", "txet": "x"})
    assert_names(caught.value, "txet")
    error = await error_of(shared.address, request("chain", text="x", txet="x"))
    assert isinstance(error, InvalidArgument)
    assert_names(error, "txet")


async def test_a_missing_input_is_named(client: Client, shared: PuppetCluster) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.submit("chain")
    assert_names(caught.value, "text")
    error = await error_of(shared.address, request("chain"))
    assert isinstance(error, InvalidArgument)
    assert_names(error, "text")


async def test_a_wrong_media_type_is_named_by_the_client_and_by_the_scheduler(
    client: Client, shared: PuppetCluster
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.submit("looked_at", {"image": "a text"})
    assert_names(caught.value, "image")
    error = await error_of(shared.address, request("looked_at", image="a text"))
    assert isinstance(error, InvalidArgument)
    assert_names(error, "image")
    assert "image" in error.message.lower()
    assert "text" in error.message.lower()


async def test_bytes_that_are_no_value_are_named(client: Client, shared: PuppetCluster) -> None:
    broken = SubmitRequest(flow="chain", inputs=[Input(name="text", frames=[b"\xff\xff\xff\xff"])])
    error = await error_of(shared.address, broken)
    assert isinstance(error, InvalidArgument)
    assert_names(error, "text")


async def test_a_truncated_image_is_named_by_the_client(client: Client, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(PICTURE.read_bytes()[:-1000])
    with pytest.raises(InvalidArgument) as caught:
        Image.open(broken)
    assert caught.value.field == str(broken)
    assert "truncated" in caught.value.message
    assert caught.value.cure


async def test_a_truncated_image_is_named_with_node_and_worker(client: Client) -> None:
    whole = Image.open(PICTURE)
    broken = Image(whole.data[:-1000], whole.format, whole.width, whole.height)
    job = await client.submit("looked_at", {"image": broken})
    with pytest.raises(InvalidArgument) as caught:
        await job.result()
    assert_names(caught.value, "image")
    assert "truncated" in caught.value.message
    assert (caught.value.node, caught.value.worker) == ("first.look", "one")


async def test_an_image_of_20000_by_20000_pixels_is_refused_by_the_client(client: Client) -> None:
    with pytest.raises(TooLarge) as caught:
        Image.from_bytes(huge_png(20_000), origin="image")
    assert_names(caught.value, "image")


async def test_an_image_of_20000_by_20000_pixels_is_refused_by_the_role_before_it_is_decoded(client: Client) -> None:
    job = await client.submit("looked_at", {"image": Image(huge_png(20_000), "png", 20_000, 20_000)})
    with pytest.raises(TooLarge) as caught:
        await job.result()
    assert_names(caught.value, "image")
    assert (caught.value.node, caught.value.worker) == ("first.look", "one")


async def test_inputs_over_the_limit_are_named_with_their_size(client: Client) -> None:
    with pytest.raises(TooLarge) as caught:
        await client.submit("chain", {"text": "x" * (65 * 1024 * 1024)})
    assert_names(caught.value, "text")


@pytest.mark.parametrize("deadline", [0.0, -3.0])
async def test_a_deadline_in_the_past_is_refused_by_the_client(client: Client, deadline: float) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.submit("chain", {"text": "x"}, deadline=deadline)
    assert caught.value.field == "deadline"
    assert caught.value.cure


async def test_a_deadline_in_the_past_is_refused_by_the_scheduler(client: Client, shared: PuppetCluster) -> None:
    late = request("chain", text="x")
    late.deadline_ms = 2**64 - 1000  # what a client's subtraction makes of a moment ago
    error = await error_of(shared.address, late)
    assert isinstance(error, InvalidArgument)
    assert error.field == "deadline_ms"
    assert "past" in error.message


async def test_an_unknown_parameter_is_named(client: Client) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.submit("spoken", {"text": "x"}, parameters={"third.words.pasue": 3})
    assert caught.value.field == "parameters.third.words.pasue"
    assert "pause" in caught.value.message


async def test_a_role_that_raises_is_named_with_its_words(client: Client) -> None:
    job = await client.submit("failing", {"text": "h sharp"})
    with pytest.raises(RoleFailed) as caught:
        await job.result()
    error = caught.value
    assert error.node == "second.fail"
    assert error.worker in {"two-0", "two-1"}
    assert "ValueError" in error.message
    assert "there is no such note: h sharp" in error.cause
    assert error.cure


async def test_a_role_that_breaks_its_word_is_named(client: Client) -> None:
    job = await client.submit("lying", {"text": "x"})
    with pytest.raises(BadOutput) as caught:
        await job.result()
    assert (caught.value.node, caught.value.worker) == ("first.lie", "one")
    assert caught.value.cure
