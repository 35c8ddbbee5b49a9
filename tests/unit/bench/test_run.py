"""What a load test notes of each job, shown on a client that the test plays."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from omniflow.bench import Sample
from omniflow.bench.run import Load, run_load
from omniflow.client import Frame
from omniflow.types import Audio


class TextThenSound:
    """A job whose text comes before its sound."""

    report = None

    async def __aiter__(self) -> AsyncIterator[Frame]:
        clock = asyncio.get_running_loop()
        sound = Audio.from_array(np.zeros(80, np.int16), 8000)
        for seq, value in enumerate(("hello", sound, sound)):
            yield Frame("result", seq, value)
            after = clock.time()
            while clock.time() == after:  # noqa: ASYNC110 a clock sets no event
                await asyncio.sleep(0)


class OneFlow:
    async def submit(self, *_: Any, **__: Any) -> TextThenSound:
        return TextThenSound()


async def test_the_first_sound_is_told_from_the_first_frame() -> None:
    seen: list[Sample] = []
    load = Load("speak", {}, jobs=1)
    await run_load(OneFlow(), load, None, lambda: None, seen.append)  # type: ignore[arg-type]
    (sample,) = seen
    assert sample.first_frame is not None
    assert sample.first_audio is not None
    assert sample.first_frame < sample.first_audio < sample.ended
    assert sample.audio_seconds == 0.02
