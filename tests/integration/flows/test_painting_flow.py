"""A state that goes from round to round, beside a stream."""

from typing import Any

import numpy as np
import pytest

from omniflow.errors import LoopLimit
from tests.integration.flows.conftest import Example
from tests.integration.flows.driving import run, submitted


def noise_left(results: dict[str, Any]) -> float:
    """How far its pixels are from the grey that it is made for: each round of the loop halves that."""
    wanted = len(", ".join(results["thoughts"])) % 255
    pixels = results["image"].array().astype(np.float64)
    return float(np.abs(pixels - wanted).mean())


async def test_a_state_goes_from_round_to_round_and_leaves_the_loop_at_its_end(painting: Example) -> None:
    few, report = await run(painting, "paint", {"prompt": "a red boat"}, steps=5)
    assert few["thoughts"] == ["a picture of a", "a picture of red", "a picture of boat"]
    assert (few["image"].width, few["image"].height) == (16, 16)
    # What a worker says of a round after the job's end is in no report, so that there may be fewer than ran.
    steps = {tuple(each.key) for each in report.activations if each.node == "denoiser.step"}
    assert steps <= {(number,) for number in range(5)}
    many, _report = await run(painting, "paint", {"prompt": "a red boat"}, steps=9)
    assert noise_left(many) < noise_left(few) / 4


async def test_a_parameter_may_ask_for_no_more_rounds_than_the_flow_says(painting: Example) -> None:
    with pytest.raises(LoopLimit, match="100 rounds"):
        await run(painting, "paint", {"prompt": "a boat"}, steps=101)


async def test_the_command_that_the_painting_cluster_file_shows_writes_a_picture(painting: Example) -> None:
    assert await submitted(painting) == ["image.png", "thoughts.txt"]
