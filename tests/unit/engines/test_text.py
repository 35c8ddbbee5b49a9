"""Text grows by whole characters, and stops before a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from omniflow_workers.engines.text import REPLACEMENT, IncrementalText


def decode_bytes(ids: Sequence[int]) -> str:
    """A byte-level vocabulary in its purest form: an id is a byte."""
    return bytes(ids).decode("utf-8", errors="replace")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters=REPLACEMENT), max_size=40))
@settings(deadline=None)
def test_pieces_are_whole_characters_and_together_the_text(text: str) -> None:
    grown = IncrementalText(decode_bytes)
    pieces = [grown.push(byte) for byte in text.encode()]
    pieces.append(grown.finish())
    assert "".join(pieces) == text
    assert not any(REPLACEMENT in piece for piece in pieces)


@given(st.text(alphabet="ab", max_size=30), st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3))
@settings(deadline=None)
def test_nothing_of_a_stop_string_is_emitted(text: str, stop: list[str]) -> None:
    grown = IncrementalText(decode_bytes, stop)
    said, fed = "", 0
    for byte in text.encode():
        said += grown.push(byte)
        fed += 1
        if grown.stopped:
            break
    said += grown.finish()
    places = [place for place in (text.find(each) for each in stop) if place >= 0]
    if not places:
        assert said == text
        assert not grown.stopped
    else:
        assert grown.stopped
        seen = text[:fed]
        assert said == seen[: min(place for place in (seen.find(each) for each in stop) if place >= 0)]


def test_an_incomplete_character_at_the_end_is_left_out() -> None:
    grown = IncrementalText(decode_bytes)
    said = "".join(grown.push(byte) for byte in "fee €".encode()[:-1])
    assert said + grown.finish() == "fee "


def test_a_byte_that_is_no_character_is_not_held_for_ever() -> None:
    grown = IncrementalText(decode_bytes)
    pieces = [grown.push(0xFF) for _ in range(6)]
    assert "".join(pieces).startswith(REPLACEMENT)
