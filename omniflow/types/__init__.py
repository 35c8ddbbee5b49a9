"""What travels on an edge: values that check themselves, their types, and their form on the wire."""

from omniflow.types.annotations import BadAnnotation, has_stream_field, resolve_hints, value_type
from omniflow.types.audio import Audio
from omniflow.types.choice import Choice, Choices
from omniflow.types.codec import check, decode, encode, from_message, to_message
from omniflow.types.image import Image
from omniflow.types.limits import MAX_PIXELS
from omniflow.types.record import AnyRecord, is_record, record
from omniflow.types.stream import Stream
from omniflow.types.tensor import Tensor
from omniflow.types.text import Text
from omniflow.types.value_type import Branches, FieldType, Kind, ValueType
from omniflow.types.video import Video

__all__ = [
    "MAX_PIXELS",
    "AnyRecord",
    "Audio",
    "BadAnnotation",
    "Branches",
    "Choice",
    "Choices",
    "FieldType",
    "Image",
    "Kind",
    "Stream",
    "Tensor",
    "Text",
    "ValueType",
    "Video",
    "check",
    "decode",
    "encode",
    "from_message",
    "has_stream_field",
    "is_record",
    "record",
    "resolve_hints",
    "to_message",
    "value_type",
]
