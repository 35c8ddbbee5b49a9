"""Values survive the wire; what is damaged or of another type is refused, naming the field."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from omniflow import Audio, Image, Stream, Tensor, Text, Video, record
from omniflow.errors import InvalidArgument, TooLarge
from omniflow.types import AnyRecord, ValueType, decode, encode, value_type
from omniflow.v1 import value_pb2


@record
class Page:
    number: int
    text: Text
    scale: float = 1.0
    picture: Image | None = None
    tags: tuple[str, ...] = ()


@record
class Book:
    pages: list[Page]


IMAGE = Image.from_array(np.zeros((2, 3, 3), np.uint8))
VALUES: list[tuple[Any, Any]] = [
    ("héllo", Text),
    ("", Text),
    (IMAGE, Image),
    (Audio(b"\x01\x00\x02\x00", "pcm_s16", 8_000, 2), Audio),
    (Video(b"\x00\x00\x00\x18ftypmp42", "mp4"), Video),
    (Tensor("bfloat16", (2,), b"abcd"), Tensor),
    ([IMAGE, IMAGE], list[Image]),
    ([], list[Text]),
    (Page(3, "three", 0.5, IMAGE, ("a", "b")), Page),
    (Book([Page(1, "one"), Page(2, "two")]), Book),
    (True, bool),
    (-(2**63), int),
    (0.25, float),
    (("x", "y"), tuple[str, ...]),
]


@pytest.mark.parametrize(("value", "annotation"), VALUES, ids=lambda each: str(each)[:20])
def test_a_value_comes_back_as_it_went(value: Any, annotation: Any) -> None:
    type_ = value_type(annotation)
    assert decode(encode(value, type_), type_) == value
    assert ValueType.from_proto(type_.to_proto()) == type_


@examples(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20_000))
def test_the_fast_path_of_text_writes_what_protobuf_writes(text: str) -> None:
    payload = encode(text)
    assert payload == value_pb2.Value(text=text).SerializeToString()
    assert decode(payload) == text


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 70_000])
def test_texts_of_every_length_prefix_come_back(size: int) -> None:
    assert decode(encode("x" * size), value_type(Text)) == "x" * size


@examples(st.binary(max_size=200))
def test_damaged_payloads_are_refused_with_the_field(payload: bytes) -> None:
    try:
        decode(payload, value_type(Text), field="question")
    except InvalidArgument as error:
        assert error.field == "question"  # noqa: PT017  most random bytes are refused, some are a text


def test_a_record_without_its_class_is_still_readable() -> None:
    read = decode(encode(Page(1, "one")))
    assert isinstance(read, AnyRecord)
    assert (read.name, read.fields["text"], read.fields["number"]) == ("Page", "one", 1)
    assert decode(encode(read, value_type(Page)), value_type(Page)) == Page(1, "one")


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        (3, Text, "wants Text, got int"),
        ("3", int, "wants int, got str"),
        (True, int, "wants int, got bool"),
        (None, Text, "wants Text, got None"),
        (Page(1, "x"), Book, "wants Book, got Page"),
        ("\ud800", Text, "surrogate"),
        (2**63, int, "64 bits"),
    ],
)
def test_a_value_of_another_type_is_not_sent(value: Any, annotation: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        encode(value, value_type(annotation), field="port")
    assert caught.value.field == "port"


def test_what_is_deep_inside_is_named_by_its_path() -> None:
    with pytest.raises(InvalidArgument) as caught:
        encode(Book([Page(1, "one"), Page(2, 5)]), value_type(Book), field="book")  # type: ignore[arg-type]
    assert caught.value.field == "book.pages[1].text"


MEBIBYTE = 1 << 20
LARGE = "é" * (4 * MEBIBYTE)
SOUND = Audio(bytes(8 * MEBIBYTE), "pcm_s16", 48_000)


@pytest.mark.parametrize(
    "value",
    [
        LARGE,
        SOUND,
        [SOUND],
        Page(1, LARGE),
        Book([Page(1, LARGE)]),
        Tensor("uint8", (8 * MEBIBYTE,), SOUND.data),
    ],
    ids=["text", "sound", "list", "record", "nested", "tensor"],
)
def test_what_is_too_large_is_refused_before_it_is_copied(value: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="over the limit of 3,145,728") as caught:
            encode(value, field="port", limit=3 * MEBIBYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.field == "port"
    assert peak < MEBIBYTE


def test_a_text_whose_characters_are_few_but_wide_is_too_large_by_its_bytes() -> None:
    with pytest.raises(TooLarge):
        encode(LARGE, limit=5 * MEBIBYTE)
    assert decode(encode(LARGE, limit=9 * MEBIBYTE)) == LARGE


def test_an_image_of_another_kind_is_refused_on_arrival() -> None:
    with pytest.raises(InvalidArgument, match="wants Image, got text"):
        decode(encode("words"), value_type(Image), field="image")


def test_a_lying_header_counts_for_nothing() -> None:
    lie = value_pb2.Value(image=value_pb2.Image(data=bytes(IMAGE.data), format="gif", width=1, height=1))
    image = decode(lie.SerializeToString(), value_type(Image))
    assert (image.format, image.width, image.height) == ("png", 3, 2)


def test_a_record_that_lacks_a_field_is_refused() -> None:
    message = value_pb2.Value(record=value_pb2.Record(name="Page", fields={"number": value_pb2.Value(integer=1)}))
    with pytest.raises(InvalidArgument, match="lacks `text`") as caught:
        decode(message.SerializeToString(), value_type(Page), field="page")
    assert caught.value.field == "page.text"


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        (Text, "Text"),
        (Text | None, "Text | None"),
        (Stream[Audio], "Stream[Audio]"),
        (Stream[Audio] | None, "Stream[Audio] | None"),
        (list[Image], "list[Image]"),
        (str, "str"),
        (Book, "Book"),
    ],
)
def test_a_type_reads_as_it_was_written(annotation: Any, shown: str) -> None:
    assert str(value_type(annotation)) == shown


@pytest.mark.parametrize(
    "annotation",
    [Any, dict[str, str], bytes, Text | Image, None, Stream, Stream[str], Stream[Stream[Text]], list[Stream[Text]]],
    ids=str,
)
def test_what_cannot_travel_is_no_annotation(annotation: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        value_type(annotation)
    assert caught.value.cure
