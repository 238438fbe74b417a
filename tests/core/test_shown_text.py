"""A stream holds back what its end cuts off of an escape sequence, or of a character that is struck over."""

import pytest

from ikigai.core.text.shown_text import find_partial_hidden


@pytest.mark.parametrize("before", ["", "x", "x" * 9_000], ids=["nothing", "a sign", "much"])
@pytest.mark.parametrize("partial", ["\x1b", "\x1b[31", "\x1b]8;;http://a", "\x9b3", "a\b", "a\bb\b_", "_"])
def test_what_the_end_cuts_off_is_found_wherever_it_stands(before: str, partial: str):
    assert find_partial_hidden(before + partial) == len(before)


@pytest.mark.parametrize("text", ["", "x" * 9_000, "\x1b[31mred", "x" * 9_000 + "\x1b[0m", "a\ba" * 3_000])
def test_whole_text_is_not_held_back(text: str):
    assert find_partial_hidden(text) == len(text)
