"""These tests wrap text: rows fit, no letter is lost, and the fast way breaks where the other does."""

import sys

from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from ikigai.terminal.render import text_width as text

lines = st.text(alphabet="abéж—   ", max_size=60).map(lambda line: line.rstrip(" "))
widths = st.integers(2, 20)


@given(lines, widths)
@example(" bbbbbbbb", 3)
@example("a  bbbbbbbb", 3)
def test_letters_of_one_cell_are_wrapped_as_all_are(line: str, width: int):
    assert list(text._letters(line, width)) == list(text._rows(line, width))


@given(st.text(alphabet="ab é日\n\t", max_size=60), widths)
def test_rows_fit_and_have_every_letter(given: str, width: int):
    rows = list(text.wrap(given, width))
    assert all(text.cell_width(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(given.split())


def test_characters_taken_for_one_cell_take_one_cell():
    narrow = [char for char in map(chr, range(0x20, sys.maxunicode + 1)) if char != "\x7f" and text._narrow(char)]
    assert len(narrow) > 700 and {get_cwidth(char) for char in narrow} == {1}
