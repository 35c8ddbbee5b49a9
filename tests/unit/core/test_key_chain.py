"""Page keys from Python: token buffers in, keys that stay in Rust out."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from omniflow_core._native import InvalidArgument, KeyChain, MediaCut, PageKeys

DIGEST = bytes(range(32))


def chain(salt: bytes = b"") -> KeyChain:
    return KeyChain("model", "layout", 4, salt)


@pytest.mark.parametrize(
    "tokens",
    [
        np.arange(9, dtype=np.int32),
        np.arange(9, dtype=np.int64),
        np.arange(9, dtype=np.uint32),
        np.arange(18, dtype=np.int64)[::2] // 2,
        array.array("i", range(9)),
        array.array("q", range(9)),
    ],
    ids=["int32", "int64", "uint32", "strided", "array-i", "array-q"],
)
def test_every_kind_of_token_buffer_gives_the_same_keys(tokens: NDArray[np.integer[Any]]) -> None:
    one = chain()
    assert one.extend(tokens) == 2
    two = chain()
    assert sum(two.append(token) for token in range(9)) == 2
    assert one.keys == two.keys
    assert (len(one), one.pages, one.page_tokens, len(one.keys)) == (9, 2, 4, 2)


def test_keys_are_the_same_in_every_process_and_version() -> None:
    one = KeyChain(b"model", "layout", 4, b"tenant")
    one.extend(np.array([1, 2, 3, 4, 5], np.int32))
    one.add_media(bytes([7]) * 32, 3, placeholder=9)
    first, second = bytes(one.keys[:1]).hex(), bytes(one.keys[1:]).hex()
    assert first == "447eb46528ff963cc570958379fc849ea67adc2c2baa86a4504a685f7e77fea4"
    assert second == "f67e07ddbc18a27465e8582242da81317004f52eab9577dc47ce0eb5bee3643f"


def test_the_tenants_salt_is_part_of_every_key() -> None:
    one, two = chain(), chain(b"tenant")
    tokens = np.zeros(8, np.int32)
    one.extend(tokens)
    two.extend(tokens)
    assert one.keys[:1] != two.keys[:1]
    assert one.keys[1:] != two.keys[1:]


def test_two_images_never_match_because_their_placeholders_do() -> None:
    one, two, text = chain(), chain(), chain()
    one.add_media(DIGEST, 8, placeholder=5)
    two.add_media(DIGEST[::-1], 8, placeholder=5)
    text.extend(np.full(8, 5, np.int32))
    assert len({one.keys[:1], two.keys[:1], text.keys[:1]}) == 3


def test_truncate_then_extend_gives_the_keys_of_the_new_sequence() -> None:
    one, two = chain(), chain()
    one.extend(np.arange(20, dtype=np.int64))
    one.truncate(10)
    assert one.pages == 2
    one.extend(np.arange(100, 110, dtype=np.int64))
    two.extend(np.concatenate([np.arange(10), np.arange(100, 110)]))
    assert one.keys == two.keys


def test_a_media_item_is_never_cut() -> None:
    one = chain()
    one.append(1)
    one.add_media(DIGEST, 6)
    with pytest.raises(MediaCut, match="truncate to 1 or 7") as caught:
        one.truncate(3)
    assert (caught.value.start, caught.value.end) == (1, 7)
    one.truncate(1)
    assert len(one) == 1


def test_a_fork_goes_its_own_way() -> None:
    one = chain()
    one.extend(np.arange(6, dtype=np.int32))
    two = one.fork()
    one.extend(np.array([1, 1], np.int32))
    two.extend(np.array([2, 2], np.int32))
    assert one.keys[:1] == two.keys[:1]
    assert one.keys[1:] != two.keys[1:]


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        (np.zeros(3, np.float32), "pass int32, uint32 or int64"),
        (np.zeros((2, 2), np.int32), "2 dimensions"),
        (np.array([1, -1], np.int64), "token -1 at position 1"),
        (np.array([1 << 32], np.int64), "token 4294967296 at position 0"),
        ([1, 2], "must be a buffer"),
    ],
    ids=["float", "two-dimensional", "negative", "too-large", "list"],
)
def test_bad_tokens_are_named_and_add_nothing(tokens: NDArray[np.integer[Any]], says: str) -> None:
    one = chain()
    with pytest.raises(InvalidArgument, match=says):
        one.extend(tokens)
    assert len(one) == 0


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidArgument, match="page_tokens is 0"):
        KeyChain("model", "layout", 0)
    with pytest.raises(InvalidArgument, match="model must be bytes or str"):
        KeyChain(3, "layout", 4)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="digest has 3 bytes"):
        chain().add_media(b"abc", 1)
    with pytest.raises(InvalidArgument, match="length is 0"):
        chain().add_media(DIGEST, 0)


def test_page_keys_go_over_a_wire_and_back() -> None:
    one = chain()
    one.extend(np.arange(20, dtype=np.int32))
    keys = one.keys
    assert PageKeys(bytes(keys)) == keys
    assert memoryview(keys).nbytes == 5 * 32
    assert memoryview(keys).readonly
    with pytest.raises(InvalidArgument, match="32 for each page"):
        PageKeys(bytes(keys)[:-1])


def test_page_keys_are_cut_like_a_sequence_and_compared_by_what_they_are() -> None:
    one = chain()
    one.extend(np.arange(20, dtype=np.int32))
    keys = one.keys
    assert (len(keys), len(keys[1:3]), len(keys[-2:]), len(keys[4:2]), len(keys[:99])) == (5, 2, 2, 0, 5)
    assert bytes(keys[1:4][1:]) == bytes(keys)[64:128]
    assert keys[:2] == one.keys[:2]
    assert hash(keys[:2]) == hash(one.keys[:2])
    assert keys[:2] != keys[1:3]
    assert keys != bytes(keys)
    with pytest.raises(InvalidArgument, match="step is 2"):
        keys[::2]


def test_keys_are_those_of_their_time() -> None:
    one = chain()
    one.extend(np.arange(8, dtype=np.int32))
    before, view = one.keys, memoryview(one.keys)
    one.truncate(0)
    one.extend(np.arange(50, 70, dtype=np.int32))
    assert (len(before), bytes(view)) == (2, bytes(before))
    assert before != one.keys[:2]


@pytest.mark.parametrize("tokens", [17, 16_383, 16_384, 40_000])
def test_long_and_short_extensions_agree(tokens: int) -> None:
    ids = np.arange(tokens, dtype=np.int64)
    one, two = chain(), chain()
    one.extend(ids)
    for part in np.array_split(ids, 7):
        two.extend(part)
    assert one.keys == two.keys
