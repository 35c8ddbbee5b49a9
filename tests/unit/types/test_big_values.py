"""Big media and tensors are not copied on their way into a payload, nor out of it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
import pytest

from omniflow.errors import InvalidArgument, TooLarge
from omniflow.types import AnyRecord, Audio, Image, Tensor, Video, decode, encode, record, value_type
from omniflow.types.big import decode_payload, encode_parts
from omniflow.types.buffers import BIG_BYTES
from omniflow.types.wire import ALIGNMENT, joined
from omniflow.v1 import value_pb2

BIG = 4 * BIG_BYTES


@record
class Both:
    name: str
    first: Tensor
    sound: Audio | None
    rest: list[Tensor]


def numbers(count: int = BIG, dtype: str = "float32") -> Tensor:
    return Tensor.from_array(np.arange(count) % 251, dtype)


def noise() -> Image:
    pixels = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    return Image.from_array(pixels)


SOUND = Audio.from_array(np.linspace(-1, 1, BIG, dtype=np.float32), 16_000)
VALUES: list[Any] = [
    numbers(),
    numbers(dtype="bfloat16"),
    Tensor.from_array(np.float64(3.5)),
    SOUND,
    noise(),
    Video(b"\0\0\0\x18ftypmp42" + bytes(BIG), "mp4"),
    [numbers(3), numbers(), numbers(5, "int8"), numbers(dtype="int64")],
    Both("one", numbers(), SOUND, [numbers(7, "uint8"), numbers()]),
    Both("two", numbers(2), None, []),
    "x" * BIG,
]


def in_place(value: Any) -> memoryview:
    """Its payload, as a worker hands it out."""
    payload = np.zeros(len(whole := joined(encode_parts(value))) + ALIGNMENT, np.uint8)
    start = -payload.__array_interface__["data"][0] % ALIGNMENT
    payload[start : start + len(whole)] = np.frombuffer(whole, np.uint8)
    return payload[start : start + len(whole)].data.toreadonly()


def type_of(value: Any) -> Any:
    return value_type(list[Tensor] if isinstance(value, list) else type(value))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_big_payload_is_what_protobuf_reads_and_comes_back_equal(value: Any) -> None:
    kind = type_of(value)
    payload = joined(encode_parts(value, kind))
    assert decode(payload, kind) == value
    assert value_pb2.Value.FromString(payload).WhichOneof("kind")
    assert decode_payload(in_place(value), kind) == value
    assert decode_payload(memoryview(encode(value, kind)), kind) == value


def test_a_tensor_is_written_and_read_without_a_copy_of_its_bytes() -> None:
    array = np.arange(BIG, dtype=np.float32)
    tensor = Tensor.from_array(array)
    assert np.shares_memory(tensor.array(), array)
    parts = encode_parts(tensor)
    assert not isinstance(parts, bytes)
    assert any(part is tensor.data for part in parts)
    payload = in_place(tensor)
    read = decode_payload(payload)
    assert np.shares_memory(read.array(), np.frombuffer(payload, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        read.array()[0] = 1


def test_numbers_of_big_data_begin_at_a_multiple_of_64_bytes_wherever_they_are() -> None:
    both = Both("three", numbers(), SOUND, [numbers(), numbers(5), numbers(BIG, "float64")])
    read = decode_payload(in_place(both), value_type(Both))
    arrays = [read.first.array(), read.sound.array(), read.rest[0].array(), read.rest[2].array()]
    assert [array.__array_interface__["data"][0] % ALIGNMENT for array in arrays] == [0] * 4


def test_numbers_that_lie_askew_are_still_read_rightly() -> None:
    tensor = numbers()
    whole = b"x" + encode(tensor)
    askew = memoryview(whole)[1:]
    array = decode_payload(askew).array()
    assert array.flags.aligned
    assert not array.flags.writeable
    assert np.array_equal(array, tensor.array())


def test_small_parts_of_a_big_payload_do_not_keep_it() -> None:
    read = decode_payload(in_place(VALUES[6]))
    assert [isinstance(each.data, bytes) for each in read] == [True, False, True, False]


def test_values_that_are_views_compare_hash_and_print_like_others() -> None:
    for value in (numbers(), SOUND, noise()):
        view = decode_payload(in_place(value))
        assert isinstance(view.data, memoryview)
        same = dataclasses.replace(value, data=bytes(value.data))
        assert view == same
        assert hash(view) == hash(same)
        assert repr(view) == repr(same)


def test_a_record_without_its_class_is_read_in_place_too() -> None:
    read = decode_payload(in_place(VALUES[7]))
    assert isinstance(read, AnyRecord)
    assert (read.name, read.fields["name"]) == ("Both", "one")
    assert isinstance(read.fields["first"].data, memoryview)


def test_what_is_not_of_the_type_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidArgument, match="wants Tensor"):
        encode_parts([SOUND], value_type(list[Tensor]), field="parts")
    with pytest.raises(InvalidArgument) as caught:
        decode_payload(in_place(SOUND), value_type(Tensor), field="image")
    assert caught.value.field == "image"
    with pytest.raises(TooLarge):
        encode_parts(numbers(), limit=BIG)


@pytest.mark.parametrize("value", [*VALUES[:2], *VALUES[3:8]], ids=lambda value: type(value).__name__)
def test_damaged_payloads_are_refused_or_read_as_something_else_but_never_crash(value: Any) -> None:
    whole = bytes(in_place(value))
    for cut in (1, 2, 7, 40, len(whole) // 2, len(whole) - 1):
        with pytest.raises(InvalidArgument):
            decode_payload(memoryview(whole[:cut]), type_of(value))
    random = np.random.default_rng(1)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[int(random.integers(0, 200))] = int(random.integers(0, 256))
        with contextlib.suppress(InvalidArgument):
            decode_payload(memoryview(bytes(damaged)), type_of(value))


def test_tensors_of_torch_travel_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8, torch.complex64):
        given = (torch.arange(BIG) % 7).to(dtype).reshape(4, -1)
        tensor = Tensor.from_torch(given)
        assert (tensor.dtype, tensor.shape) == (str(dtype).removeprefix("torch."), tuple(given.shape))
        read = decode_payload(in_place(tensor)).torch()
        assert read.dtype == dtype
        assert torch.equal(read, given)
    shared = torch.zeros(BIG)
    tensor = Tensor.from_torch(shared)
    assert tensor.torch().data_ptr() == shared.data_ptr()
    assert Tensor.from_torch(torch.zeros(0, 3)).torch().shape == (0, 3)
    assert Tensor.from_torch(torch.tensor(2.5)).torch().item() == 2.5
    assert torch.equal(Tensor.from_torch(torch.arange(6).reshape(2, 3).T).torch(), torch.arange(6).reshape(2, 3).T)


def test_a_tensor_of_torch_keeps_the_memory_that_it_lies_in() -> None:
    pytest.importorskip("torch")
    tensor = decode_payload(in_place(numbers())).torch()
    junk = [np.full(BIG * 5, 255, np.uint8) for _ in range(20)]
    assert tensor.sum().item() == numbers().array().sum()
    del junk
