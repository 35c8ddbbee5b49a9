"""Omni-Flow: serving models made of several unlike parts.

Flows are functions decorated with `@flow`, over roles, which are classes with typed methods.
"""

from omniflow.errors import OmniFlowError
from omniflow.flow import Flow, any_of, flow, given, use
from omniflow.types import Audio, Image, Stream, Tensor, Text, Video, record

__all__ = [
    "Audio",
    "Flow",
    "Image",
    "OmniFlowError",
    "Stream",
    "Tensor",
    "Text",
    "Video",
    "any_of",
    "flow",
    "given",
    "record",
    "use",
]
