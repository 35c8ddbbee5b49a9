"""Pictures of a compiled flow: Mermaid text, and SVG laid out here."""

from omniflow.flow.draw.mermaid import mermaid
from omniflow.flow.draw.svg import svg

__all__ = ["mermaid", "svg"]
