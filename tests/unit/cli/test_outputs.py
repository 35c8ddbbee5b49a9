"""Results as files."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest

from omniflow.cli.outputs import LONGEST_SHOWN_TEXT, output_folder, short_text, write_results
from omniflow.errors import InvalidArgument
from omniflow.types import AnyRecord, Audio, Image, Tensor


def test_a_stream_of_text_or_sound_becomes_one_file(tmp_path: Path) -> None:
    part = Audio.from_array(np.ones(400, np.float32) * 0.5, 8000)
    files = write_results(tmp_path, {"text": ["Hello ", "there"], "speech": [part, part], "nothing": []})
    assert files == {"text": [tmp_path / "text.txt"], "speech": [tmp_path / "speech.wav"]}
    assert (tmp_path / "text.txt").read_text() == "Hello there"
    with wave.open(str(tmp_path / "speech.wav")) as sound:
        assert (sound.getnframes(), sound.getframerate()) == (800, 8000)


def test_pictures_keep_their_format_and_several_are_numbered(tmp_path: Path) -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    files = write_results(
        tmp_path, {"one": [Image.from_array(pixels)], "two": [Image.from_array(pixels, format="jpeg")] * 2}
    )
    names = {port: [path.name for path in paths] for port, paths in files.items()}
    assert names == {"one": ["one.png"], "two": ["two-0.jpeg", "two-1.jpeg"]}


def test_arrays_and_records_can_be_read_again(tmp_path: Path) -> None:
    picture = Image.from_array(np.zeros((2, 2, 3), np.uint8))
    record = AnyRecord("Page", {"title": "one", "cover": picture, "numbers": [1, 2]})
    write_results(tmp_path, {"array": [Tensor.from_array(np.arange(3))], "page": [record]})
    assert np.load(tmp_path / "array.npy").tolist() == [0, 1, 2]
    page = json.loads((tmp_path / "page.json").read_text())
    assert page == {"title": "one", "cover": "page.cover.png", "numbers": [1, 2]}
    assert (tmp_path / "page.cover.png").read_bytes() == picture.data


def test_a_folder_that_cannot_be_made_is_refused_before_the_job_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot make the folder"), output_folder(tmp_path / "file" / "folder"):
        raise AssertionError("nothing runs")


def test_a_failed_submission_leaves_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), output_folder(tmp_path / "a" / "b"):
        raise ZeroDivisionError
    assert not (tmp_path / "a").exists()


def test_a_folder_with_something_in_it_or_that_was_there_stays(tmp_path: Path) -> None:
    with output_folder(tmp_path / "new"):
        (tmp_path / "new" / "answer.txt").write_text("yes")
    assert (tmp_path / "new" / "answer.txt").read_text() == "yes"
    (tmp_path / "old").mkdir()
    with output_folder(tmp_path / "old"):
        pass
    assert (tmp_path / "old").is_dir()


def test_only_short_texts_are_shown() -> None:
    assert short_text(["Track ", "seven."]) == "Track seven."
    assert short_text(["x" * LONGEST_SHOWN_TEXT, "x"]) == ""
    assert short_text([7]) == ""
    assert short_text([]) == ""
