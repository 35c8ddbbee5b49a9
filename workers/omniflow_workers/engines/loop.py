"""The loop of a worker's engine, to be read aloud: plan a step, compute it, draw tokens, hand out text."""

from __future__ import annotations

import time
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Generic, Protocol

import numpy as np

from omniflow.errors import Cancelled, InternalError
from omniflow_core import CoreError
from omniflow_workers.engines.base import Chunk, Draw, Engine, Logits
from omniflow_workers.engines.costs import PrefillRate
from omniflow_workers.engines.planner import Planner, Work, return_borrowed
from omniflow_workers.engines.sequence import Phase, Sequence, page_ids
from omniflow_workers.engines.text import IncrementalText


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is final, and the ids that were drawn since the piece before it."""

    text: str
    tokens: tuple[int, ...]


class Listener(Protocol):
    """Whoever asked for an answer. No method may block."""

    @property
    def cancelled(self) -> bool:
        """Stop within one step."""

    def text(self, pieces: list[Piece]) -> int:
        """Takes the next pieces, none of them without text; returns how many. The rest is offered again.

        May raise: the answer is then given up.
        """

    def done(self, summary: Summary) -> None: ...
    def failed(self, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True)
class Summary:
    """What an answer took.

    Of the prompt, `reused_tokens` came from earlier prompts here, `mapped_tokens` were read where they lie in another
    worker's pages, and `pulled_tokens` were fetched from another worker's; the rest was computed. `resumed_tokens` of
    the answer had been generated before, elsewhere; `reason`: "end" (the model ended), "stop" (a stop string),
    "length", "prompt" (no answer was wanted)."""

    prompt_tokens: int
    reused_tokens: int
    mapped_tokens: int
    pulled_tokens: int
    resumed_tokens: int
    generated_tokens: int
    reason: str

    @property
    def computed_tokens(self) -> int:
        """Of the prompt, those that this engine computed."""
        return self.prompt_tokens - self.reused_tokens - self.mapped_tokens - self.pulled_tokens


@dataclass(eq=False, slots=True)
class Request:
    """One answer that is wanted, or is being given.

    `said`: the tokens of pieces that its reader has of an earlier attempt, from the first one on. The answer goes on as
    if it had never been interrupted: lengths, draws and stop strings count from its beginning.
    """

    sequence: Sequence
    text: IncrementalText
    listener: Listener
    said: Items[tuple[int, ...]] = ()
    unsent: list[Piece] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list, init=False)
    reason: str = field(default="", init=False)

    @property
    def resumed_tokens(self) -> int:
        """How many tokens of the answer were not drawn here."""
        return sum(map(len, self.said))


class EngineLoop(Generic[Logits]):
    """Continuous batching over one engine. One thread calls `step`; `add` belongs to the same thread."""

    def __init__(self, engine: Engine[Logits], planner: Planner) -> None:
        self._engine = engine
        self._planner = planner
        self._requests: dict[Sequence, Request] = {}
        self._ends = engine.facts.end_tokens
        self.rate = PrefillRate()
        self.stalled = False
        """Whether the last step could compute nothing of what there is: others hold the pages."""

    @property
    def capacity(self) -> int:
        """The longest sequence, prompt and answer together, in tokens."""
        return self._planner.capacity

    @property
    def active(self) -> int:
        """Requests that are neither done nor failed."""
        return len(self._requests)

    @property
    def computing(self) -> bool:
        """Whether `step` has anything to compute; otherwise it only offers text again."""
        return not self._planner.idle and not self.stalled

    def add(self, request: Request) -> None:
        """Raises `InternalError` when `request.said` is not what this model says."""
        try:
            self._say_again(request)
            if not request.reason:
                self._planner.add(request.sequence)
        except Exception:
            return_borrowed(request.sequence)
            raise
        if request.reason:
            return_borrowed(request.sequence)
        self._requests[request.sequence] = request

    def step(self) -> None:
        """One round. Failures of one request end that request; a failure of the engine ends those of its batch."""
        self._drop_cancelled()
        work = self._planner.plan()
        self.stalled = not work and not self._planner.idle
        if work:
            self._compute(work)
        for request in list(self._requests.values()):
            self._hand_out(request)

    def rest(self) -> None:
        """There is nothing to do for now."""
        self._planner.rest()

    def abandon(self, error: Exception) -> None:
        """Fails all requests and gives their pages back."""
        for request in list(self._requests.values()):
            self._fail(request, error)

    def _compute(self, work: Items[Work]) -> None:
        try:
            for sequence in [each.sequence for each in work if each.sequence.source is not None]:
                self._copy(sequence)
            batch = [_chunk(each) for each in work]
            started = time.perf_counter()
            logits = self._engine.compute(batch)
            self._planner.computed(work)
            drawn = [each.sequence for each in work if each.samples]
            draws = [Draw(sequence.sampling, sequence.generated) for sequence in drawn]
            ids = self._engine.sample(batch, logits, draws).ids if draws else []
            stale = self._stale(work)
        except Exception as error:  # whatever the model raised: its batch ends, the next one runs
            for each in work:
                self._fail(self._requests[each.sequence], error, remember=False)
            return
        self.rate.computed(sum(len(chunk.tokens) for chunk in batch), time.perf_counter() - started)
        for sequence, token in zip(drawn, ids, strict=True):
            if sequence not in stale:
                self._accept(self._requests[sequence], token)
        for sequence in stale:
            self._planner.start_over(sequence)
        for sequence in [each.sequence for each in work if each.sequence.phase is Phase.PREFILLED]:
            self._requests[sequence].reason = "prompt"
            self._planner.end(sequence)

    def _stale(self, work: Items[Work]) -> list[Sequence]:
        """Those whose borrowed pages are not certain to have held, during all of this step, what they must."""
        borrowing = [each.sequence for each in work if len(each.sequence.first)]
        if borrowing:
            self._engine.settle()
        return [sequence for sequence in borrowing if not _holds(sequence)]

    def _copy(self, sequence: Sequence) -> None:
        assert sequence.source is not None
        known = page_ids(sequence.source)
        self._engine.copy_pages(known, sequence.pages[: len(known)])

    def _say_again(self, request: Request) -> None:
        """Takes in the tokens of an earlier attempt: nothing is computed, and what its reader has is not sent again."""
        for token in (token for tokens in request.said for token in tokens):
            if request.reason:
                raise _other_words(request)
            request.sequence.tokens.append(token)
            self._heed(request, token)
        if len(request.unsent) < len(request.said):
            raise _other_words(request)
        del request.unsent[: len(request.said)]
        if request.reason:
            request.sequence.phase = Phase.ENDED

    def _accept(self, request: Request, token: int) -> None:
        self._planner.append(request.sequence, token)
        self._heed(request, token)
        if request.reason:
            self._planner.end(request.sequence)

    def _heed(self, request: Request, token: int) -> None:
        """What follows from the answer's latest token: text, or its end."""
        sequence = request.sequence
        request.drawn.append(token)
        if token in self._ends:
            request.reason = "end"
        else:
            _keep(request, request.text.push(token))
            if request.text.stopped:
                request.reason = "stop"
            elif sequence.generated >= sequence.max_new_tokens:
                request.reason = "length"
        if request.reason:
            _keep(request, request.text.finish())

    def _hand_out(self, request: Request) -> None:
        try:
            if request.unsent:
                del request.unsent[: request.listener.text(request.unsent)]
            if request.reason and not request.unsent:
                del self._requests[request.sequence]
                request.listener.done(_summary(request))
        except Exception as error:  # the listener's: nobody hears this answer, the others go on
            self._fail(request, error)

    def _drop_cancelled(self) -> None:
        for request in [each for each in self._requests.values() if each.listener.cancelled]:
            self._fail(request, Cancelled("the answer is no longer wanted"))

    def _fail(self, request: Request, error: Exception, *, remember: bool = True) -> None:
        self._requests.pop(request.sequence, None)
        if request.sequence.phase is not Phase.ENDED:
            self._planner.end(request.sequence, remember=remember)
        request.listener.failed(error)


def _holds(sequence: Sequence) -> bool:
    assert sequence.borrowed is not None
    try:
        sequence.borrowed.verify()
    except CoreError:  # StalePage, or a pool that cannot be asked any more
        return False
    return True


def _keep(request: Request, piece: str) -> None:
    """A piece stays the frame that it is, whenever it can be sent: another attempt then gives the same frames."""
    if piece:
        request.unsent.append(Piece(piece, tuple(request.drawn)))
        request.drawn.clear()


def _other_words(request: Request) -> InternalError:
    return InternalError(
        f"{request.sequence.name}: what was said by an earlier attempt is not what this model says with its tokens",
        cure="let all workers of the role serve the same model",
    )


def _chunk(work: Work) -> Chunk:
    sequence = work.sequence
    tokens = np.asarray(sequence.tokens[work.start : work.start + work.count], np.int64)
    return Chunk(tokens, work.start, sequence.pages, work.samples)


def _summary(request: Request) -> Summary:
    sequence = request.sequence
    resumed = request.resumed_tokens
    return Summary(
        prompt_tokens=sequence.prompt_tokens,
        reused_tokens=sequence.reused,
        mapped_tokens=sequence.mapped,
        pulled_tokens=sequence.pulled,
        resumed_tokens=resumed,
        generated_tokens=sequence.generated - resumed,
        reason=request.reason,
    )
