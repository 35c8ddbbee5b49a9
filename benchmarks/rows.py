"""Rows of a benchmark: JSON for programs on standard output, a table for people on standard error."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One figure. `ratio` is ours over the peer's, or its inverse where less is better: more is always better."""

    name: str
    ours: float
    peer: float | None
    ratio: float | None
    unit: str
    reach: str
    met: bool | None
    why: str = ""


def compared(
    name: str, ours: Sequence[float], peer: Sequence[float], unit: str, *, at_least: float, less_is_better: bool = False
) -> Row:
    """Medians of alternating measurements, and the median of the pairs' ratios."""
    pairs = [theirs / mine if less_is_better else mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    ratio = statistics.median(pairs)
    return Row(
        name,
        statistics.median(ours),
        statistics.median(peer),
        ratio,
        unit,
        f">= {at_least:g} times the peer",
        ratio >= at_least,
    )


def alone(
    name: str, ours: float, unit: str, *, at_most: float | None = None, at_least: float | None = None, why: str = ""
) -> Row:
    """A figure without a peer, and the bound that it is held to, if any."""
    if at_most is not None:
        return Row(name, ours, None, None, unit, f"<= {at_most:g}", ours <= at_most, why)
    if at_least is not None:
        return Row(name, ours, None, None, unit, f">= {at_least:g}", ours >= at_least, why)
    return Row(name, ours, None, None, unit, "", None, why)


def show(rows: Sequence[Row]) -> None:
    """Prints them both ways."""
    for row in rows:
        print(json.dumps({key: value for key, value in asdict(row).items() if key != "why" or value}), flush=True)
    table = Table("work", "ours", "peer", "ratio", "unit", "reach", "met")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.ours:.3g}",
            row.why or "" if row.peer is None else f"{row.peer:.3g}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            row.unit,
            row.reach,
            {True: "yes", False: "no", None: ""}[row.met],
        )
    Console(stderr=True, width=160).print(table)
