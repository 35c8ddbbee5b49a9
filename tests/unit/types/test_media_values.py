"""Media values check themselves."""

import io
import struct
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from omniflow import Audio, Image, Tensor, Video
from omniflow.errors import InvalidArgument, TooLarge


def png_of(width: int, height: int) -> bytes:
    """A PNG whose header promises this size, with next to no pixels behind it."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def noise(size: int = 64) -> Image:
    return Image.from_array(np.random.default_rng(0).integers(0, 255, (size, size, 3), dtype=np.uint8))


def test_an_image_keeps_its_pixels() -> None:
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    image = Image.from_array(pixels)
    assert (image.width, image.height, image.format) == (5, 4, "png")
    assert (image.array() == pixels).all()
    assert Image.from_bytes(image.data) == image


def test_an_image_comes_from_a_file_or_from_pillow(tmp_path: Path) -> None:
    picture = Pillow.new("RGB", (7, 3), "red")
    picture.save(tmp_path / "red.jpg")
    image = Image.open(tmp_path / "red.jpg")
    assert (image.width, image.height, image.format) == (7, 3, "jpeg")
    assert Image.from_pil(picture).array()[0, 0].tolist() == [255, 0, 0]


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere\.png") as caught:
        Image.open("nowhere.png")
    assert caught.value.cure


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("encoding", ["png", "jpeg", "webp"])
def test_a_truncated_image_is_refused(encoding: str, kept: float) -> None:
    data = Image.from_pil(noise().pil(), format=encoding).data
    with pytest.raises(InvalidArgument, match="damaged or truncated"):
        Image.from_bytes(data[: int(kept * len(data))], origin="image")


def test_an_image_of_20000_by_20000_pixels_is_refused_from_its_header() -> None:
    with pytest.raises(TooLarge) as caught:
        Image.from_bytes(png_of(20_000, 20_000), origin="image")
    assert caught.value.field == "image"
    assert "scale" in caught.value.cure


def test_an_image_over_the_given_limit_is_refused_from_its_header() -> None:
    with pytest.raises(TooLarge, match=r"9000 x 9000 pixels is over the limit of 64,000,000"):
        Image.from_bytes(png_of(9_000, 9_000))
    with pytest.raises(TooLarge, match="64 x 64"):
        Image.from_bytes(noise().data, max_pixels=64 * 63)


@pytest.mark.parametrize("data", [b"", b"hello, world", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Image.from_bytes(data, origin="image")
    assert caught.value.field == "image"


def test_damage_found_late_still_names_the_input() -> None:
    whole = noise().data
    image = Image.from_header(whole[: len(whole) // 2], origin="image")
    with pytest.raises(InvalidArgument) as caught:
        image.pil()
    assert caught.value.field == "image"


@pytest.mark.parametrize(
    "pixels", [np.zeros((2, 2), np.float32), np.zeros((2, 2, 2), np.uint8), np.zeros((0, 2), np.uint8)]
)
def test_pixels_of_another_form_are_refused(pixels: np.ndarray) -> None:
    with pytest.raises(InvalidArgument, match="uint8"):
        Image.from_array(pixels)


def test_audio_counts_frames_and_seconds() -> None:
    audio = Audio.from_array(np.zeros((16_000, 2), np.int16), 32_000)
    assert (audio.encoding, audio.channels, audio.frames, audio.seconds) == ("pcm_s16", 2, 16_000, 0.5)
    assert audio.array().shape == (16_000, 2)


def test_audio_survives_a_wav_file(tmp_path: Path) -> None:
    samples = (np.sin(np.arange(800) / 5) * 20_000).astype(np.int16)
    (tmp_path / "tone.wav").write_bytes(Audio.from_array(samples, 8_000).to_wav())
    read = Audio.open(tmp_path / "tone.wav")
    assert (read.array()[:, 0] == samples).all()
    assert read.sample_rate == 8_000


def test_float_samples_are_clipped_not_wrapped_in_a_wav_file() -> None:
    wav = Audio.from_array(np.array([0.0, 0.5, 2.0, -2.0, np.nan], np.float32), 8_000).to_wav()
    with wave.open(io.BytesIO(wav)) as reader:
        samples = np.frombuffer(reader.readframes(5), np.int16)
    assert samples.tolist() == [0, 16_384, 32_767, -32_767, 0]


def test_sounds_are_joined_only_when_alike() -> None:
    one, two = Audio(b"\x01\x00", "pcm_s16", 8_000), Audio(b"\x02\x00", "pcm_s16", 16_000)
    assert Audio.concat([one, one]).frames == 2
    with pytest.raises(InvalidArgument, match="cannot join"):
        Audio.concat([one, two])


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Audio(b"abc", "pcm_s16", 8_000), "data"),
        (lambda: Audio(b"", "pcm_s16", 0), "sample_rate"),
        (lambda: Audio(b"", "mp3", 8_000), "encoding"),  # type: ignore[arg-type]
        (lambda: Audio(b"", "pcm_s16", 8_000, 0), "channels"),
        (lambda: Tensor("float7", (1,), b"1"), "dtype"),
        (lambda: Tensor("float32", (2,), b"1234"), "data"),
        (lambda: Tensor("float32", (-1,), b""), "shape"),
    ],
)
def test_a_value_that_contradicts_itself_is_refused(make: object, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()  # type: ignore[operator]
    assert caught.value.field == field
    assert caught.value.cure


def test_a_truncated_wav_file_is_refused() -> None:
    wav = Audio.from_array(np.zeros(1_000, np.int16), 8_000).to_wav()
    with pytest.raises(InvalidArgument, match="truncated"):
        Audio.from_wav(wav[:-100])
    with pytest.raises(InvalidArgument, match="not a readable WAV"):
        Audio.from_wav(b"RIFFnothing")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64"])
def test_a_tensor_keeps_its_array(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = Tensor.from_array(array)
    assert tensor.dtype == dtype
    assert (tensor.array() == array).all()
    assert not tensor.array().flags.writeable


def test_a_tensor_is_a_view_not_a_copy() -> None:
    tensor = Tensor.from_array(np.arange(4, dtype=np.float32))
    assert np.shares_memory(tensor.array(), np.frombuffer(tensor.data, np.uint8))


def test_a_tensor_may_have_no_dimension_or_no_element() -> None:
    assert Tensor.from_array(np.float32(3)).array() == 3
    assert Tensor.from_array(np.zeros((0, 4))).array().shape == (0, 4)


def test_a_transposed_array_travels_row_major() -> None:
    array = np.arange(6).reshape(2, 3).T
    assert (Tensor.from_array(array).array() == array).all()


def test_bfloat16_rounds_to_nearest_even_and_widens_exactly() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -3.140625, np.inf, np.nan], np.float32)
    tensor = Tensor.from_array(values, "bfloat16")
    assert len(tensor.data) == 2 * len(values)
    assert tensor.bits()[0] == 0x3F80
    widened = tensor.array()
    assert widened.dtype == np.float32
    # 1 + 2^-8 lies midway and goes to the even side, 1; 1 + 3 * 2^-8 likewise goes up.
    assert widened[:4].tolist() == [1.0, 1.0, 1.015625, -3.140625]
    assert np.isinf(widened[4])
    assert np.isnan(widened[5])


def test_a_video_is_told_from_its_bytes() -> None:
    assert Video.from_bytes(b"\x00\x00\x00\x18ftypmp42").format == "mp4"
    with pytest.raises(InvalidArgument, match="not a video") as caught:
        Video.from_bytes(b"plain text", origin="clip")
    assert caught.value.field == "clip"
