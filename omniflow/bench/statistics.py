"""Samples into figures: flat, with the field names of `vllm bench serve` where it has one for the same thing."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from omniflow.bench.sample import Sample

Figures = dict[str, float | int | str | None]
_PERCENTILES = (95, 99)


def summarise(samples: Sequence[Sample], duration_s: float) -> Figures:
    """Counts, throughput, and mean, median, std, p95, p99 of each time in ms over the jobs that succeeded.

    `e2el`: from intended arrival to last frame; `ttft`: to the first frame; `jct`: the scheduler's own measure;
    `audio_ttfp` (to the first sound) and `audio_rtf` (seconds of work a second of sound) for jobs that gave sound. A
    distribution of nothing is null. `failed_<code>` counts failures by kind.
    """
    good = [sample for sample in samples if not sample.failure]
    spoken = [sample for sample in good if sample.audio_seconds > 0]
    first = [latency for sample in good if (latency := sample.first_frame_latency) is not None]
    first_sound = [latency for sample in spoken if (latency := sample.first_audio_latency) is not None]
    sound = sum(sample.audio_seconds for sample in spoken)
    figures: Figures = {
        "duration": duration_s,
        "completed": len(good),
        "failed": len(samples) - len(good),
        "request_throughput": len(good) / duration_s if duration_s > 0 else 0.0,
    }
    for kind, times in sorted(Counter(sample.failure for sample in samples if sample.failure).items()):
        figures[f"failed_{kind.lower()}"] = times
    figures |= _distribution("e2el_ms", [sample.latency * 1e3 for sample in good])
    figures |= _distribution("ttft_ms", [latency * 1e3 for latency in first])
    figures |= _distribution("jct_ms", [sample.jct_s * 1e3 for sample in good if sample.jct_s is not None])
    if spoken:
        figures |= {"total_audio_duration_s": sound, "audio_throughput": sound / duration_s if duration_s > 0 else 0.0}
        figures |= _distribution("audio_ttfp_ms", [latency * 1e3 for latency in first_sound])
        figures |= _distribution("audio_rtf", [sample.latency / sample.audio_seconds for sample in spoken])
    figures |= _distribution("send_delay_ms", [(sample.sent - sample.intended) * 1e3 for sample in samples])
    return figures


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear between the neighbours, as NumPy does. `ordered` is sorted and not empty."""
    position = (len(ordered) - 1) * percent / 100
    below, above = math.floor(position), math.ceil(position)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _distribution(name: str, values: Sequence[float]) -> Figures:
    ordered = sorted(values)
    figures: Figures = {
        f"mean_{name}": statistics.fmean(ordered) if ordered else None,
        f"median_{name}": percentile(ordered, 50) if ordered else None,
        f"std_{name}": statistics.pstdev(ordered) if ordered else None,
    }
    for percent in _PERCENTILES:
        figures[f"p{percent}_{name}"] = percentile(ordered, percent) if ordered else None
    return figures
