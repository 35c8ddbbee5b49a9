"""The little of the wire format that the edge must touch: wrapping one request, and telling events of a batch apart.

Requests and events stay bytes: the hub reads and writes them in Rust. These helpers look at the outermost tags only.
"""

from collections.abc import Iterator

# (field << 3) | 2: a length-delimited field.
_BATCH_ITEM = 0x0A  # ClientBatch.messages, EventBatch.events: 1
_SUBMIT = 0x12  # ClientMessage.submit: 2
_WATCH = 0x1A  # ClientMessage.watch: 3
_ACK = 0x22  # ClientMessage.ack: 4
_CANCEL = 0x2A  # ClientMessage.cancel: 5
EVENT_REFUSED = 4
EVENT_ENDED = 7


def submit_batch(request: bytes) -> bytes:
    """A ClientBatch of one SubmitRequest, with tag 0."""
    return _batch(_SUBMIT, request)


def watch_batch(request: bytes) -> bytes:
    """A ClientBatch of one WatchRequest, with tag 0."""
    return _batch(_WATCH, request)


def ack_batch(request: bytes) -> bytes:
    """A ClientBatch of one AckRequest, with tag 0."""
    return _batch(_ACK, request)


def cancel_batch(request: bytes) -> bytes:
    """A ClientBatch of one CancelRequest, with tag 0."""
    return _batch(_CANCEL, request)


def split_events(batch: bytes) -> Iterator[bytes]:
    """The serialized JobEvents of a serialized EventBatch."""
    for _, event in _fields(batch):
        yield event


def event_part(event: bytes, field: int) -> bytes | None:
    """The length-delimited field of a serialized JobEvent; None when it is not there."""
    for number, value in _fields(event):
        if number == field:
            return value
    return None


def _batch(tag: int, request: bytes) -> bytes:
    message = bytes((tag,)) + _varint(len(request)) + request
    return bytes((_BATCH_ITEM,)) + _varint(len(message)) + message


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Length-delimited fields by number; varints are passed over, and other kinds the hub never writes here."""
    at, size = 0, len(message)
    while at < size:
        key, at = _read_varint(message, at)
        number, at = _read_varint(message, at)
        if key & 7 == 2:
            yield key >> 3, message[at : at + number]
            at += number


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
