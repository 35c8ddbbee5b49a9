"""Draws follow the distribution that temperature, top-k and top-p leave, and nothing else."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from omniflow_workers.engines.base import Draw, SamplingParams
from omniflow_workers.engines.torch.sampling import draw_ids, uniform

PROBABILITIES = [0.1, 0.4, 0.05, 0.3, 0.15]
SCORES = torch.tensor([[math.log(each) for each in PROBABILITIES]])
COUNT = 4000


def drawn(**params: float) -> Counter[int]:
    sampling = SamplingParams(**params)  # type: ignore[arg-type]
    ids = draw_ids(SCORES.expand(COUNT, -1), [Draw(sampling, index) for index in range(COUNT)])
    return Counter(ids)


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"temperature": 1.0}, [0, 1, 2, 3, 4]),
        ({"temperature": 1.0, "top_k": 2}, [1, 3]),
        ({"temperature": 1.0, "top_p": 0.8}, [1, 3, 4]),
        ({"temperature": 1.0, "top_k": 4, "top_p": 0.7}, [1, 3]),
        ({"temperature": 0.5}, [0, 1, 2, 3, 4]),
    ],
)
def test_draws_follow_what_is_left_of_the_distribution(params: dict[str, float], kept: list[int]) -> None:
    weights = {i: PROBABILITIES[i] ** (1 / params["temperature"]) for i in kept}
    total = sum(weights.values())
    found = drawn(**params)
    assert set(found) <= set(kept)
    for i, weight in weights.items():
        assert found[i] / COUNT == pytest.approx(weight / total, abs=0.03)


def test_temperature_zero_takes_the_likeliest() -> None:
    assert set(drawn(temperature=0.0)) == {1}


def test_a_draw_depends_on_seed_and_place_alone() -> None:
    params = SamplingParams(temperature=1.0, seed=3)
    once = draw_ids(SCORES.expand(50, -1), [Draw(params, index) for index in range(50)])
    one_by_one = [draw_ids(SCORES, [Draw(params, index)])[0] for index in range(50)]
    assert once == one_by_one
    assert 0 <= uniform(-5, 0) < 1
    assert uniform(1, 2) != uniform(2, 1)


def test_a_flat_distribution_over_a_large_vocabulary_keeps_what_top_p_needs() -> None:
    flat = torch.zeros(1, 5000)
    ids = [draw_ids(flat, [Draw(SamplingParams(temperature=1.0, top_p=0.9, seed=seed), 0)])[0] for seed in range(200)]
    assert len(set(ids)) > 150


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_end_is_drawn_before_the_answer_has_its_least_length(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, min_tokens=20)
    scores = SCORES.expand(40, -1)
    kept = scores.clone()
    ids = draw_ids(scores, [Draw(params, index) for index in range(40)], ends={1, 3})
    assert not {1, 3} & set(ids[:20])
    assert {1, 3} & set(ids[20:])
    assert torch.equal(scores, kept)  # the engine's scores stay as they were
