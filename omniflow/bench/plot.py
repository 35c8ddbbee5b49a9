"""The latency plot, as SVG written by hand.

Two panels of points and steps need no plotting library: matplotlib would be 60 MB and a second of import for a host
that only runs load tests, and an SVG can be read, searched and put beside others in a diff.
"""

from collections.abc import Sequence
from html import escape

from omniflow.bench.sample import Sample
from omniflow.bench.statistics import percentile

_WIDTH, _HEIGHT, _MARGIN, _GAP = 960, 420, 56, 72
_PANEL = (_WIDTH - 2 * _MARGIN - _GAP) / 2
_GOOD, _BAD, _FIRST, _LINE = "#2563eb", "#dc2626", "#059669", "#9ca3af"
_MAX_POINTS = 20_000


def latency_plot(samples: Sequence[Sample], title: str) -> str:
    """An SVG: each job's latency over its intended arrival, and the distribution of latency and time to first frame."""
    start = min((sample.intended for sample in samples), default=0.0)
    span = max((sample.intended - start for sample in samples), default=0.0) or 1.0
    good = [sample for sample in samples if not sample.failure]
    top = max((sample.latency for sample in samples), default=0.0) or 1.0
    shown = samples[:: max(1, len(samples) // _MAX_POINTS)]
    points = [
        _circle(
            _MARGIN + (sample.intended - start) / span * _PANEL,
            _y(sample.latency / top),
            _BAD if sample.failure else _GOOD,
        )
        for sample in shown
    ]
    right = _MARGIN + _PANEL + _GAP
    first = [latency for sample in good if (latency := sample.first_frame_latency) is not None]
    body = [
        _text(_MARGIN, 28, title, 16),
        *_axes(_MARGIN, "intended arrival (s)", "latency (s)", span, top),
        *points,
        *_axes(right, "latency (s)", "share of jobs", top, 1.0),
        _steps([sample.latency for sample in good], top, right, _GOOD),
        _steps(first, top, right, _FIRST),
        _text(right + 8, _MARGIN + 14, "to the last frame", 12, _GOOD),
        _text(right + 8, _MARGIN + 30, "to the first frame", 12, _FIRST),
    ]
    if len(good) < len(samples):
        body.append(_text(_MARGIN + 8, _MARGIN + 14, f"{len(samples) - len(good)} failed", 12, _BAD))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *body, "</svg>\n"])


def _steps(latencies: Sequence[float], top: float, left: float, colour: str) -> str:
    if not latencies:
        return ""
    ordered = sorted(latencies)
    marks = [(percentile(ordered, step / 2), step / 200) for step in range(201)]
    path = " ".join(f"{left + value / top * _PANEL:.1f},{_y(share):.1f}" for value, share in marks)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _axes(left: float, below: str, beside: str, x_end: float, y_end: float) -> list[str]:
    bottom, lines = _y(0.0), []
    for quarter in range(5):
        share = quarter / 4
        x, y = left + share * _PANEL, _y(share)
        lines.append(f'<line x1="{left}" y1="{y}" x2="{left + _PANEL}" y2="{y}" stroke="{_LINE}" stroke-width="0.4"/>')
        lines.append(_text(x, bottom + 16, f"{x_end * share:.3g}", 11, anchor="middle"))
        lines.append(_text(left - 6, y + 4, f"{y_end * share:.3g}", 11, anchor="end"))
    lines.append(_text(left + _PANEL / 2, bottom + 34, below, 12, anchor="middle"))
    lines.append(_text(left, _MARGIN - 10, beside, 12))
    return lines


def _y(share: float) -> float:
    return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)


def _circle(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.8" fill="{colour}" fill-opacity="0.6"/>'


def _text(x: float, y: float, text: str, size: int, colour: str = "#111827", anchor: str = "start") -> str:
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>'
