"""Two workers, one for prompts and one for answers, say what one worker says."""

from typing import Any

import pytest

from omniflow.v1.job_pb2 import Report
from tests.integration.flows.conftest import Example
from tests.integration.flows.driving import run

pytestmark = pytest.mark.models

QUESTION = "Why is the sky blue, and why is it red in the evening? Answer in one sentence."
PATIENCE_S = 100.0  # a model computes, on a machine that may have much else to do
SAMPLINGS: list[dict[str, Any]] = [{}, {"temperature": 0.9}]


def features_of(report: Report, node: str) -> dict[str, float]:
    (found,) = [dict(each.features) for each in report.activations if each.node == node]
    return found


@pytest.mark.parametrize("sampling", SAMPLINGS)
async def test_prefill_and_decode_apart_say_what_one_worker_says(
    prefill_decode: Example, sampling: dict[str, Any]
) -> None:
    # A question of its own, so that each finds nothing of the one before.
    asked = {"question": f"{QUESTION} {sorted(sampling)}"}
    sampling = {**sampling, "max_tokens": 6}
    seeded = {"llm.decode.chat.seed": 7, **sampling}
    apart, report = await run(prefill_decode, "apart", asked, PATIENCE_S, **seeded)
    whole, _ = await run(prefill_decode, "whole", asked, PATIENCE_S, **{"llm.chat.seed": 7, **sampling})
    assert apart == whole
    assert "".join(apart["result"]).strip()
    prompt, answer = features_of(report, "llm.prefill.chat"), features_of(report, "llm.decode.chat")
    assert answer["mapped_tokens"] == prompt["prompt_tokens"] > 0
    assert answer["pulled_tokens"] == 0
    assert answer["computed_tokens"] == answer["prompt_tokens"] - answer["mapped_tokens"]


async def test_a_prompt_whose_worker_dies_as_it_hands_it_over_is_answered_all_the_same(prefill_decode: Example) -> None:
    stop = prefill_decode.folder / "llm-prefill-handed-over"
    stop.touch()
    asked = {"question": "Name three colours of the rainbow, and say which of them is the warmest."}
    apart, _ = await run(prefill_decode, "apart", asked, PATIENCE_S, max_tokens=4)
    assert not stop.exists(), "its worker did not die"
    whole, _ = await run(prefill_decode, "whole", asked, PATIENCE_S, max_tokens=4)
    assert apart == whole
