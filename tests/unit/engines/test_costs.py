"""Fetching is compared with computing, by what both were measured to take."""

from __future__ import annotations

from omniflow_workers.engines.costs import FetchCosts, PrefillRate


def rate(seconds_a_token: float) -> PrefillRate:
    made = PrefillRate()
    made.computed(100, 100 * seconds_a_token)
    return made


def test_what_was_never_measured_is_tried() -> None:
    costs = FetchCosts()
    assert costs.worth_asking(1, rate(1e-3))
    assert costs.worth_fetching("a", 1 << 30, 1, rate(1e-3))
    costs.fetched("a", 1000, 1.0)
    assert costs.worth_fetching("a", 1 << 30, 1, PrefillRate())


def test_pages_are_fetched_when_their_bytes_come_sooner_than_their_tokens_are_computed() -> None:
    costs = FetchCosts()
    costs.fetched("near", 1_000_000, 0.001)
    costs.fetched("far", 1_000_000, 1.0)
    tokens, size = 100, 1_000_000  # computed in 0.1 s
    assert costs.worth_fetching("near", size, tokens, rate(1e-3))
    assert not costs.worth_fetching("far", size, tokens, rate(1e-3))
    assert costs.worth_fetching("far", size, tokens, rate(1e-1))


def test_a_disk_is_read_when_its_bytes_come_sooner_than_their_tokens_are_computed() -> None:
    costs = FetchCosts()
    assert costs.worth_reading(1 << 30, 1, rate(1e-3))
    costs.read(1_000_000, 0.05)
    assert costs.worth_reading(1_000_000, 100, rate(1e-3))
    assert not costs.worth_reading(1_000_000, 40, rate(1e-3))


def test_nobody_is_asked_for_what_is_computed_in_less_time() -> None:
    costs = FetchCosts()
    costs.asked(0.01)
    assert not costs.worth_asking(8, rate(1e-3))
    assert costs.worth_asking(80, rate(1e-3))


def test_what_was_dear_once_is_tried_again_in_time() -> None:
    costs = FetchCosts()
    costs.fetched("a", 1_000, 1.0)
    tried = next(attempt for attempt in range(10_000) if costs.worth_fetching("a", 1_000, 100, rate(1e-3)))
    assert 10 < tried < 10_000


def test_steps_of_few_tokens_say_nothing_of_prompts() -> None:
    made = PrefillRate()
    made.computed(1, 5.0)
    assert made.seconds_a_token is None
    made.computed(32, 0.32)
    assert made.seconds_a_token == 0.01
