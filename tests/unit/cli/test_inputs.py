"""What `--input` and `--param` accept, by the types that a flow declares."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omniflow.cli.inputs import read_inputs, read_parameters
from omniflow.errors import InvalidArgument
from omniflow.types import AnyRecord, Audio, FieldType, Image, Kind, Tensor, ValueType

TEXT = ValueType(Kind.TEXT)


def _picture(folder: Path) -> Path:
    file = folder / "picture.png"
    file.write_bytes(Image.from_array(np.zeros((4, 6, 3), np.uint8)).data)
    return file


def _refusal(types: dict[str, ValueType], *given: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        read_inputs(types, given)
    return caught.value


def test_text_comes_as_it_is_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "question.txt"
    file.write_text("what = this?\n")
    types = {"question": TEXT}
    assert read_inputs(types, ["question=a=b"]) == {"question": "a=b"}
    assert read_inputs(types, [f"question=@{file}"]) == {"question": "what = this?\n"}
    assert read_inputs(types, ["question=@@home"]) == {"question": "@home"}
    assert read_inputs(types, ["question="]) == {"question": ""}


def test_media_come_from_files(tmp_path: Path) -> None:
    sound = tmp_path / "sound.wav"
    sound.write_bytes(Audio.from_array(np.zeros(80, np.int16), 8000).to_wav())
    array = tmp_path / "array.npy"
    np.save(array, np.arange(6, dtype=np.float32).reshape(2, 3))
    types = {"image": ValueType(Kind.IMAGE), "sound": ValueType(Kind.AUDIO), "array": ValueType(Kind.TENSOR)}
    values = read_inputs(types, [f"image=@{_picture(tmp_path)}", f"sound=@{sound}", f"array=@{array}"])
    assert (values["image"].width, values["image"].height) == (6, 4)
    assert values["sound"].seconds == pytest.approx(0.01)
    assert isinstance(values["array"], Tensor)
    assert values["array"].shape == (2, 3)


def test_a_stream_takes_its_frames_one_by_one() -> None:
    assert read_inputs({"words": ValueType(Kind.TEXT, stream=True)}, ["words=a", "words=b"]) == {"words": ["a", "b"]}


def test_records_and_lists_come_as_json(tmp_path: Path) -> None:
    draft = ValueType(
        Kind.RECORD,
        record="Draft",
        fields=(FieldType("title", TEXT), FieldType("cover", ValueType(Kind.IMAGE, optional=True))),
    )
    numbers = ValueType(Kind.LIST, item=ValueType(Kind.INTEGER))
    text = f'draft={{"title": "one", "cover": "@{_picture(tmp_path)}"}}'
    values = read_inputs({"draft": draft, "numbers": numbers}, [text, "numbers=[1, 2]"])
    assert isinstance(values["draft"], AnyRecord)
    assert values["draft"].fields["cover"].width == 6
    assert values["numbers"] == [1, 2]


@pytest.mark.parametrize(
    ("types", "given", "field", "words"),
    [
        ({"question": TEXT}, ["qestion=x"], "qestion", "did you mean 'question'?"),
        ({"question": TEXT}, [], "question", "add --input question=VALUE"),
        ({"image": ValueType(Kind.IMAGE)}, [], "image", "add --input image=@FILE"),
        ({"question": TEXT}, ["question"], "--input", "NAME=VALUE"),
        ({"question": TEXT}, ["question=a", "question=b"], "question", "given twice"),
        ({"question": TEXT}, ["question=@/nowhere"], "question", "cannot read /nowhere"),
        ({"image": ValueType(Kind.IMAGE)}, ["image=picture.png"], "image", "wants an image file"),
        ({"image": ValueType(Kind.IMAGE)}, ["image=picture.png"], "image", "image=@FILE"),
        ({"image": ValueType(Kind.IMAGE)}, ["image=@/nowhere.png"], "image", "cannot read"),
        ({"array": ValueType(Kind.TENSOR)}, [f"array=@{__file__}"], "array", ".npy"),
        ({"n": ValueType(Kind.LIST, item=ValueType(Kind.INTEGER))}, ["n=[1,"], "n", "as JSON"),
    ],
)
def test_a_wrong_input_is_named_with_its_cure(
    types: dict[str, ValueType], given: list[str], field: str, words: str
) -> None:
    error = _refusal(types, *given)
    assert error.field == field
    assert words in str(error)


def test_an_optional_input_may_be_left_out() -> None:
    assert read_inputs({"image": ValueType(Kind.IMAGE, optional=True)}, []) == {}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("llm.chat.temperature=0.7", 0.7),
        ("llm.chat.max_tokens=64", 64),
        ("llm.chat.greedy=true", True),
        ("llm.chat.stop=END", "END"),
        ('llm.chat.stop="7"', "7"),
        ('llm.chat.stop=["a", "b"]', ["a", "b"]),
        ("llm.chat.stop=null", "null"),
    ],
)
def test_parameters_are_json_or_text(given: str, value: Any) -> None:
    assert read_parameters([given]) == {given.partition("=")[0]: value}
