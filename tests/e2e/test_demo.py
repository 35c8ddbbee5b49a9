"""`make demo`, but for the setting up: a picture and two questions in, words and sound out, nothing left."""

import re
from pathlib import Path

import numpy as np
import pytest

from omniflow.launch.identity import marked_with
from omniflow.types import Audio
from tests.cluster_fixtures.command import omniflow

# A word takes a voice between a tenth of a second and one second.
SECONDS_A_WORD = (0.1, 1.0)


@pytest.mark.models
@pytest.mark.timeout(500)
async def test_the_demo_answers_in_words_and_sound_and_leaves_nothing(tmp_path: Path) -> None:
    done = await omniflow("demo", "--output", "out", folder=tmp_path)
    assert done.status == 0, done.output
    for name in ("answer", "answer-2"):
        words = (tmp_path / "out" / f"{name}.txt").read_text().split()
        assert words
        sound = Audio.open(tmp_path / "out" / f"{name}.wav")
        level = np.sqrt(np.mean((sound.array().astype(np.float64) / 32768) ** 2))
        assert level > 0.01, "the answer is silent"
        assert SECONDS_A_WORD[0] * len(words) < sound.seconds < SECONDS_A_WORD[1] * len(words) + 1
    for node in ("ocr.read", "llm.chat", "tts.speak"):
        assert node in done.stdout
    # The table of the second question says how much of its prompt was known from the first.
    reused = [int(count.replace(",", "")) for count in re.findall(r"reused ([\d,]+)", done.stdout)]
    assert reused
    assert reused[-1] > 0
    assert "the cluster has ended" in done.stderr
    assert list(marked_with(tmp_path / ".omniflow")) == []
