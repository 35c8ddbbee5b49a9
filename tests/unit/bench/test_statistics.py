"""Figures of a load test."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from omniflow.bench import Sample, latency_plot, percentile, summarise


def _sample(latency: float, **more: float | str) -> Sample:
    return Sample(intended=1.0, sent=1.0, ended=1.0 + latency, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("percent", [0, 1, 50, 95, 99, 100])
@pytest.mark.parametrize("size", [1, 2, 10, 101])
def test_percentiles_are_those_of_numpy(percent: float, size: int) -> None:
    values = sorted(np.random.default_rng(size).exponential(size=size).tolist())
    assert percentile(values, percent) == pytest.approx(np.percentile(values, percent))


def test_latency_counts_successes_only_and_failures_are_counted_by_kind() -> None:
    samples = [_sample(0.1), _sample(0.3), _sample(9.0, failure="WORKER_LOST"), _sample(8.0, failure="WORKER_LOST")]
    figures = summarise([*samples, _sample(7.0, failure="DEADLINE_EXCEEDED")], duration_s=2.0)
    assert (figures["completed"], figures["failed"]) == (2, 3)
    assert (figures["failed_worker_lost"], figures["failed_deadline_exceeded"]) == (2, 1)
    assert figures["request_throughput"] == 1.0
    assert figures["mean_e2el_ms"] == pytest.approx(200.0)
    assert figures["median_e2el_ms"] == pytest.approx(200.0)
    assert figures["p99_e2el_ms"] == pytest.approx(298.0)


def test_sound_gives_time_to_first_packet_and_real_time_factor() -> None:
    spoken = _sample(2.0, first_frame=1.5, first_audio=1.8, audio_seconds=4.0)
    figures = summarise([spoken, _sample(1.0, first_frame=1.1)], 2.0)
    assert figures["mean_audio_rtf"] == pytest.approx(0.5)
    assert figures["mean_audio_ttfp_ms"] == pytest.approx(800.0)
    assert figures["mean_ttft_ms"] == pytest.approx(300.0)
    assert figures["audio_throughput"] == pytest.approx(2.0)


def test_figures_are_flat_json_even_when_everything_failed() -> None:
    figures = summarise([_sample(1.0, failure="UNAVAILABLE")], 1.0)
    assert json.loads(json.dumps(figures)) == figures
    assert all(not isinstance(value, dict | list) for value in figures.values())
    assert figures["mean_e2el_ms"] is None
    assert "mean_audio_rtf" not in figures


def test_the_plot_is_svg_with_a_point_a_job() -> None:
    samples = [_sample(0.1 * index, first_frame=1.05) for index in range(1, 30)] + [_sample(2.0, failure="INTERNAL")]
    root = ElementTree.fromstring(latency_plot(samples, "a <flow> & more"))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 30
    assert sum(circle.get("fill") == "#dc2626" for circle in circles) == 1
    assert ElementTree.fromstring(latency_plot([], "nothing")) is not None
