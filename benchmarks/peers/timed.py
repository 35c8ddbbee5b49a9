"""What the peers' scripts share that time single calls: an order names a work, the answer is its mean in µs."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

# Does the work on all its arguments, checks the answers, and returns the mean of a call in microseconds.
Work = Callable[[], float]


def mean_us(call: Callable[[T], object], arguments: Sequence[T]) -> float:
    """Calls with each argument in turn."""
    start = time.perf_counter()
    for argument in arguments:
        call(argument)
    return (time.perf_counter() - start) / len(arguments) * 1e6


def expect(found: object, wanted: object) -> None:
    """A figure of a wrong answer is worth nothing."""
    if found != wanted:
        raise RuntimeError(f"expected {wanted!r}, got {found!r}")


def take_orders(name: str, works: Mapping[str, Work]) -> None:
    """Answers orders until standard input ends."""
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        work = json.loads(line)["work"]
        print(json.dumps({"us": works[work]()}), flush=True)
