"""Hidden characters: nothing stays invisible in what the user decides about, and each is named."""

from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.sanitize import clean_line
from ikigai.tools.approval.invisible_characters import brought, hidden, revealed


def test_what_is_revealed():
    for text, shown in (
        ("ls -l\nrm x", "ls -l\nrm x"),
        ("ls \u202e\u200b\U000e0041", "ls <U+202E><U+200B><U+E0041>"),
        ("a\rb\r\nc", "a<U+000D>b<U+000D>\nc"),
        ("\x1b[2K\x1b]52;c;x\x07", "<U+001B>[2K<U+001B>]52;c;x<U+0007>"),
        ("a\u00a0b\u3000c\ue000", "a<U+00A0>b<U+3000>c<U+E000>"),
        ("a\tb", "a⇥b"),
        ("ls" + " " * 5_000 + "; rm x", "ls<5000 blanks>; rm x"),
        ("ls" + " " * 39 + "x", "ls" + " " * 39 + "x"),
        ("ls" + "\n" * 300 + "rm x", "ls\n<299 empty lines>\nrm x"),
        ("ls\n\n\nrm", "ls\n\n\nrm"),
    ):
        assert revealed(text) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("\r\n\t \x1b[\u202e\u200dab", max_size=200))
def test_nothing_that_is_revealed_hides(text: str):
    for line in revealed(text).split("\n"):
        assert clean_line(line) == line
    if clean_line(text.replace("\n", "")) != text.replace("\n", "").replace("\t", " "):
        assert hidden(text).startswith("Hidden characters: ")


def test_what_is_hidden_is_named():
    for text, said in (
        ("ls -l\n\tx", ""),
        ("écho 日本 привет", ""),
        ("a\u202eb\u202ec\u200b", "Hidden characters: 2 × U+202E RIGHT-TO-LEFT OVERRIDE, U+200B ZERO WIDTH SPACE."),
        ("a\r", "Hidden characters: U+000D."),
        ("l\u0455", "Look-alikes: U+0455 CYRILLIC SMALL LETTER DZE."),
        ("ls \u2013l", "Look-alikes: U+2013 EN DASH."),
        ("ls\uff1brm", "Look-alikes: U+FF1B FULLWIDTH SEMICOLON."),
        (
            "\uff4cs\u00a0",
            "Hidden characters: U+00A0 NO-BREAK SPACE. Look-alikes: U+FF4C FULLWIDTH LATIN SMALL LETTER L.",
        ),
    ):
        assert hidden(text) == said
    assert hidden("".join(map(chr, range(0x200B, 0x2010))) + "\u202a\u202b\u202c").endswith("and 3 more.")


def test_what_an_edit_brings():
    assert brought("+a\x1b[31m\n") == "Hidden characters: U+001B."
    assert brought("-\ufeffa\n+\ufeffb\n") == ""
    assert brought("+x\u202e\r\n+\u202e\n-\u202e\n") == "Hidden characters: U+202E RIGHT-TO-LEFT OVERRIDE."
    assert brought("+one\rtwo\n") == "Hidden characters: U+000D."
    assert brought(" context \u202e\n") == ""
