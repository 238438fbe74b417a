"""What commands write, on an output that does not have every character."""

import io
import sys

import pytest

from ikigai.system.output import say


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # a locale of Latin-1, and that of C
def test_what_the_encoding_does_not_have_is_written_as_a_question_mark(
    monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", errors))
    say("\u2588\u2588 21.2k")
    assert written.getvalue() == b"?? 21.2k\n"
