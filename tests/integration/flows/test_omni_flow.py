"""Encoders side by side, then streams from role to role."""

import shutil
import wave
from pathlib import Path

from tests.integration.flows.conftest import EXAMPLES, Example
from tests.integration.flows.driving import SOUND, activations, picture, run, submitted


async def test_what_the_encoders_saw_and_heard_reaches_the_thinker_and_both_answers_stream(omni: Example) -> None:
    inputs = {"text": "What is this", "images": [picture(3), picture(4)], "sounds": [SOUND]}
    results, report = await run(omni, "omni", inputs)
    assert results["text"] == ["What", "is", "this", "2 images", "1 sounds"]
    assert [round(sound.seconds, 2) for sound in results["speech"]] == [len(word) / 100 for word in results["text"]]
    assert activations(report) == {
        "vision.encode": 2,
        "hearing.encode": 1,
        "thinker.generate": 1,
        "talker.speak": 1,
        "vocoder.decode": 1,
    }


async def test_an_empty_fan_out_joins_to_an_empty_list(omni: Example) -> None:
    results, report = await run(omni, "omni", {"text": "Hello", "images": [], "sounds": []})
    assert results["text"] == ["Hello", "0 images", "0 sounds"]
    assert activations(report) == {"thinker.generate": 1, "talker.speak": 1, "vocoder.decode": 1}


async def test_the_command_that_the_omni_cluster_file_shows_answers_in_words_and_in_sound(omni: Example) -> None:
    with wave.open(str(omni.folder / "hello.wav"), "wb") as hello:
        hello.setparams((1, 2, 8_000, 800, "NONE", "not compressed"))
        hello.writeframes(bytes(1_600))
    picture_of = Path("speak") / "receipt.png"
    (omni.folder / "examples" / picture_of).parent.mkdir(parents=True)
    shutil.copy(EXAMPLES / picture_of, omni.folder / "examples" / picture_of)
    assert await submitted(omni) == ["speech.wav", "text.txt"]
    assert (omni.folder / "out" / "text.txt").read_text() == "Whatisthis?1 images1 sounds"
