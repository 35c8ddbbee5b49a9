"""Text is `str`: the name only tells ports from parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias


@dataclass(frozen=True, slots=True)
class TextMark:
    """Marks a `str` annotation as text that travels on an edge."""


# To type checkers and at run time a Text is a plain `str`; in a role's or flow's signature it declares a port, whereas
# a bare `str` declares a parameter (a constant of the flow).
Text: TypeAlias = Annotated[str, TextMark()]
