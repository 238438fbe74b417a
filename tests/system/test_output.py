"""Tests of commands' output to an encoding that does not have every character."""

import io
import sys

import pytest

from ikigai.system.output import print_lines


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # a locale of Latin-1, and the C locale
def test_characters_missing_in_the_encoding_are_written_as_question_marks(
    monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", errors))
    print_lines("\u2588\u2588 21.2k")
    assert written.getvalue() == b"?? 21.2k\n"
