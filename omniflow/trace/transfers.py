"""What went from one worker to another."""

from dataclasses import dataclass

from omniflow.trace.model import Arrow, JobTrace


@dataclass(frozen=True, slots=True)
class Transfer:
    """The frames of one edge between two attempts on different workers.

    `first`: when the first one was sent. `last`: when the last one was there: of a plain value, by when its reader had
    all its inputs; where the reader has said nothing yet, when it was sent.
    """

    name: str
    source: str
    target: str
    first: int
    last: int
    frames: int
    bytes: int


def transfers_of(trace: JobTrace) -> list[Transfer]:
    """In the order in which they began. None where the attempts do not tell what they sent."""
    found = (_transfer(trace, arrow) for arrow in trace.arrows)
    return sorted((each for each in found if each is not None), key=lambda each: (each.first, each.last, each.name))


def _transfer(trace: JobTrace, arrow: Arrow) -> Transfer | None:
    source, target = trace.attempts[arrow.source], trace.attempts[arrow.target]
    sent = source.output(arrow.output)
    if sent is None or not sent.frames or not sent.first or source.worker == target.worker:
        return None
    read = target.input(arrow.input)
    first, last, carried = sent.first, sent.last, sent
    if read is not None:
        last, carried = read.last, read
        if read.frames == 1 < sent.frames:  # one of those that an `each` hands out
            first = min(sent.last, read.first)
    return Transfer(
        name=f"{source.label}.{arrow.output} → {target.label}.{arrow.input}",
        source=source.worker,
        target=target.worker,
        first=first,
        last=max(first, last),
        frames=carried.frames,
        bytes=carried.bytes,
    )
