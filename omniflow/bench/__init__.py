"""The load-test harness behind `omniflow bench`."""

from omniflow.bench.load import Clock, MonotonicClock, Reply, Submit, closed_loop, open_loop, poisson_arrivals
from omniflow.bench.plot import latency_plot
from omniflow.bench.sample import Sample
from omniflow.bench.statistics import percentile, summarise

__all__ = [
    "Clock",
    "MonotonicClock",
    "Reply",
    "Sample",
    "Submit",
    "closed_loop",
    "latency_plot",
    "open_loop",
    "percentile",
    "poisson_arrivals",
    "summarise",
]
