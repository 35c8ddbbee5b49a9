"""The Chrome trace event format, which ui.perfetto.dev and chrome://tracing open.

A process for the job, one for each worker with its activations (more than one track where they ran at once), one for
what went between workers. Within an activation: how long it was queued, how long it ran; instants for its first frame
and for sampled frames; arrows from who made something to who read it.
Source: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from collections.abc import Iterator
from typing import Any

from omniflow.trace.lanes import SHORTEST_US, Lanes
from omniflow.trace.model import Attempt, JobTrace
from omniflow.trace.transfers import Transfer, transfers_of

Event = dict[str, Any]
Track = tuple[int, int]
_JOB: Track = (1, 1)


def chrome_trace(trace: JobTrace) -> dict[str, Any]:
    """The whole file, for `json.dump`. Times are microseconds since the job's arrival."""
    picture = _Picture(trace)
    return {
        "traceEvents": list(picture.events()),
        "displayTimeUnit": "ms",
        "otherData": {
            "job": trace.job,
            "flow": trace.flow,
            "flow_version": trace.flow_version,
            "state": trace.state,
            "arrived_unix_ns": str(trace.arrived_ns),
        },
    }


class _Picture:
    def __init__(self, trace: JobTrace) -> None:
        self._trace = trace
        workers = sorted({attempt.worker for attempt in trace.attempts})
        self._processes = {worker: number for number, worker in enumerate(workers, _JOB[0] + 1)}
        lanes = {worker: Lanes() for worker in workers}
        self._tracks: list[Track] = [
            (self._processes[attempt.worker], 1 + lanes[attempt.worker].place(attempt.queued, attempt.ended))
            for attempt in trace.attempts
        ]
        self._widths = {self._processes[worker]: len(lanes[worker]) for worker in workers}

    def events(self) -> Iterator[Event]:
        yield from self._names()
        yield from self._job()
        for attempt, track in zip(self._trace.attempts, self._tracks, strict=True):
            yield from _slices(attempt, track)
            yield from _instants(attempt, track)
        yield from self._arrows()
        yield from self._transfers()

    def _names(self) -> Iterator[Event]:
        yield from _named_process(_JOB[0], f"job {self._trace.job}")
        yield _named_track(_JOB, self._trace.flow)
        for worker, process in self._processes.items():
            yield from _named_process(process, f"worker {worker}")
            for lane in range(1, 1 + self._widths[process]):
                yield _named_track((process, lane), "activations" if lane == 1 else f"activations {lane}")

    def _job(self) -> Iterator[Event]:
        trace = self._trace
        about: dict[str, Any] = {"state": trace.state, "version": trace.flow_version}
        if trace.tenant:
            about["tenant"] = trace.tenant
        if trace.error is not None:
            about["error"], about["message"] = trace.error
        yield _slice(_JOB, trace.flow, "job", 0, trace.ended, about)
        if trace.first_frame is not None:
            yield _instant(_JOB, "first result frame", trace.first_frame, {})
        for result, (node, output) in trace.results.items():
            for attempt in trace.attempts:
                traffic = attempt.output(output) if attempt.node == node else None
                for at in (traffic.sampled or (traffic.first,)) if traffic is not None else ():
                    yield _instant(_JOB, f"frame of {result}", at, {"node": attempt.label})

    def _arrows(self) -> Iterator[Event]:
        attempts = self._trace.attempts
        for number, arrow in enumerate(self._trace.arrows, 1):
            source, target = attempts[arrow.source], attempts[arrow.target]
            made, read = source.output(arrow.output), target.input(arrow.input)
            leaves = _within(source, made.first if made and made.first else source.first_frame or source.ended)
            # A value is read when its reader is queued for it; a stream from when its first frame is there.
            arrives = _within(target, max(leaves, read.first if read and read.first else target.queued))
            name = f"{source.node}.{arrow.output} → {target.node}.{arrow.input}"
            yield _arrow("s", number, name, self._tracks[arrow.source], leaves)
            yield {**_arrow("f", number, name, self._tracks[arrow.target], arrives), "bp": "e"}

    def _transfers(self) -> Iterator[Event]:
        process = _JOB[0] + 1 + len(self._processes)
        lanes: dict[tuple[str, str], Lanes] = {}
        numbers: dict[tuple[str, str, int], int] = {}
        transfers = transfers_of(self._trace)
        if transfers:
            yield from _named_process(process, "between workers")
        for transfer in transfers:
            ways = (transfer.source, transfer.target)
            lane = lanes.setdefault(ways, Lanes()).place(transfer.first, transfer.last)
            if (*ways, lane) not in numbers:
                numbers[*ways, lane] = 1 + len(numbers)
                yield _named_track((process, numbers[*ways, lane]), f"{transfer.source} → {transfer.target}")
            track = (process, numbers[*ways, lane])
            yield _slice(track, transfer.name, "transfer", transfer.first, transfer.last, _about_transfer(transfer))


def _slices(attempt: Attempt, track: Track) -> Iterator[Event]:
    """The activation, and in it how long it waited and how long it ran."""
    yield _slice(track, attempt.label, "activation", attempt.queued, attempt.ended, _about(attempt))
    waited_until = attempt.ended if attempt.started is None else attempt.started
    if waited_until > attempt.queued:
        yield _slice(track, "queued", "queued", attempt.queued, waited_until, {})
    if attempt.started is not None and attempt.ended > attempt.started:
        yield _slice(track, "running", "running", attempt.started, attempt.ended, {})


def _instants(attempt: Attempt, track: Track) -> Iterator[Event]:
    if attempt.first_frame is not None:
        yield _instant(track, "first frame", _within(attempt, attempt.first_frame), {})
    for traffic in attempt.outputs:
        for at in traffic.sampled:
            if at != attempt.first_frame:
                yield _instant(track, "frame", _within(attempt, at), {"port": traffic.port})


def _about(attempt: Attempt) -> dict[str, Any]:
    about: dict[str, Any] = {"state": attempt.state, "attempt": attempt.number, **attempt.features}
    if attempt.key:
        about["key"] = list(attempt.key)
    for traffic in attempt.outputs:
        about[f"{traffic.port}.frames"], about[f"{traffic.port}.bytes"] = traffic.frames, traffic.bytes
    return about


def _about_transfer(transfer: Transfer) -> dict[str, Any]:
    return {"frames": transfer.frames, "bytes": transfer.bytes}


def _within(attempt: Attempt, at: int) -> int:
    """An arrow is tied to the slice that is open at its time, and a slice is closed at its end."""
    return max(attempt.queued, min(at, max(attempt.ended, attempt.queued + SHORTEST_US) - 1))


def _slice(track: Track, name: str, category: str, start: int, end: int, about: dict[str, Any]) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": track[0],
        "tid": track[1],
        "ts": start,
        "dur": max(end - start, SHORTEST_US),
        "args": about,
    }


def _instant(track: Track, name: str, at: int, about: dict[str, Any]) -> Event:
    return {
        "ph": "i",
        "s": "t",
        "name": name,
        "cat": "frame",
        "pid": track[0],
        "tid": track[1],
        "ts": at,
        "args": about,
    }


def _arrow(phase: str, number: int, name: str, track: Track, at: int) -> Event:
    return {"ph": phase, "id": number, "name": name, "cat": "edge", "pid": track[0], "tid": track[1], "ts": at}


def _named_process(process: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}


def _named_track(track: Track, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": track[0], "tid": track[1], "args": {"name": name}}
