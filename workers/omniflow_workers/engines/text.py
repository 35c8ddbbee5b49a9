"""From ids to text, piece by piece: no half characters, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CHARACTER = 4
"""Bytes of a UTF-8 character, hence the most tokens that one can be spread over."""


class IncrementalText:
    """Text that grows by tokens. `push` and `finish` return what is new and final; together it is `decode(ids)`, up to
    the first stop string and without an incomplete character at the end."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop = [each for each in stop if each]
        self._ids: list[int] = []
        self._context = 0  # ids from here on are decoded: one settled piece is kept before the new one,
        self._settled = 0  # since what a token says (a leading space, say) can hang on the one before it
        self._held = ""  # decoded, but perhaps the beginning of a stop string
        self.stopped = False

    def push(self, token: int) -> str:
        """Adds a token. Sets `stopped` once a stop string is there: push nothing after that."""
        self._ids.append(token)
        before = self._decode(self._ids[self._context : self._settled])
        now = self._decode(self._ids[self._context :])
        if now.endswith(REPLACEMENT) and len(self._ids) - self._settled < _LONGEST_CHARACTER:
            return ""
        if len(now) < len(before):  # the decoder took something back: wait for more
            return ""
        self._context, self._settled = self._settled, len(self._ids)
        return self._release(now[len(before) :])

    def finish(self) -> str:
        """What was held back: no more tokens come."""
        before = self._decode(self._ids[self._context : self._settled])
        rest = self._decode(self._ids[self._context :])[len(before) :].rstrip(REPLACEMENT)
        text = self._release(rest) + self._held if not self.stopped else ""
        self._held = ""
        return text

    def _release(self, piece: str) -> str:
        text = self._held + piece
        found = [place for place in (text.find(each) for each in self._stop) if place >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((_overlap(text, each) for each in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
