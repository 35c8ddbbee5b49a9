"""Words of a picture come in reading order."""

import random

from omniflow_workers.roles.text_rows import as_text, word_of

BOARD = [("09:15", 40, 200), ("Amsterdam", 240, 203), ("4", 700, 201), ("09:40", 40, 270), ("Vienna", 240, 268)]


def test_rows_go_down_and_words_go_right_whatever_the_order_found() -> None:
    words = [word_of([[x, y], [x + 90, y], [x + 90, y + 36], [x, y + 36]], text) for text, x, y in BOARD]
    random.Random(7).shuffle(words)
    assert as_text(words) == "09:15 Amsterdam 4\n09:40 Vienna"


def test_a_small_word_beside_a_tall_one_stands_in_its_row() -> None:
    tall = word_of([[0, 0], [90, 0], [90, 80], [0, 80]], "BIG")
    small = word_of([[100, 34], [150, 34], [150, 50], [100, 50]], "small")
    below = word_of([[100, 64], [150, 64], [150, 80], [100, 80]], "below")
    assert as_text([small, tall]) == "BIG small"
    assert as_text([below, tall]) == "BIG\nbelow"


def test_no_words_are_no_text() -> None:
    assert as_text([]) == ""
