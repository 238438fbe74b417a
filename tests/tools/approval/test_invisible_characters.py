"""Hidden characters: nothing stays invisible in what the user decides about, and each is named."""

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.text.sanitize import clean_line
from ikigai.tools.approval.invisible_characters import describe_hidden, hidden_in_diff, reveal


def test_hidden_characters_are_revealed():
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
        assert reveal(text) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("\r\n\t \x1b[\u202e\u200dab", max_size=200))
def test_nothing_that_is_revealed_hides(text: str):
    for line in reveal(text).split("\n"):
        assert clean_line(line) == line
    if clean_line(text.replace("\n", "")) != text.replace("\n", "").replace("\t", " "):
        assert describe_hidden(text).startswith("Hidden characters: ")


def test_hidden_characters_are_named():
    for text, said in (
        ("ls -l\n\tx", ""),
        ("écho 日本 привет", ""),
        ("a\u202eb\u202ec\u200b", "Hidden characters: 2 × U+202E RIGHT-TO-LEFT OVERRIDE, U+200B ZERO WIDTH SPACE."),
        ("a\r", "Hidden characters: U+000D."),
        ("l\u0455", 'Look-alikes: U+0455 CYRILLIC SMALL LETTER DZE in "l\u0455".'),
        ("ls \u2013l", "Look-alikes: U+2013 EN DASH."),
        ("ls\uff1brm", "Look-alikes: U+FF1B FULLWIDTH SEMICOLON."),
        (
            "\uff4cs\u00a0",
            "Hidden characters: U+00A0 NO-BREAK SPACE. "
            'Look-alikes: U+FF4C FULLWIDTH LATIN SMALL LETTER L in "\uff4cs".',
        ),
    ):
        assert describe_hidden(text) == said
    assert describe_hidden("".join(map(chr, range(0x200B, 0x2010))) + "\u202a\u202b\u202c").endswith("and 3 more.")


def test_hidden_characters_of_an_edit_are_named():
    assert hidden_in_diff("+a\x1b[31m\n") == "Hidden characters: U+001B."
    assert hidden_in_diff("-\ufeffa\n+\ufeffb\n") == ""
    assert hidden_in_diff("+x\u202e\r\n+\u202e\n-\u202e\n") == "Hidden characters: U+202E RIGHT-TO-LEFT OVERRIDE."
    assert hidden_in_diff("+one\rtwo\n") == "Hidden characters: U+000D."
    assert hidden_in_diff(" context \u202e\n") == ""


def test_fillers_are_marked_and_named():
    for code in (
        0x34F,
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        *range(0x180B, 0x1810),
        0x2800,
        0x3164,
        0xFFA0,
        0xE0100,
        0x1D159,
    ):
        filler, mark = chr(code), f"<U+{code:04X}>"
        assert reveal(f"rm -rf build {filler} /x") == f"rm -rf build {mark} /x"
        assert describe_hidden(f"rm -rf build {filler} /x").startswith(f"Hidden characters: U+{code:04X}")


def test_edit_that_brings_a_filler_is_named():
    assert hidden_in_diff("+const { timeout,\u3164} = q;\n") == "Hidden characters: U+3164 HANGUL FILLER."
    assert hidden_in_diff("-a\u3164\n+b\u3164\n") == ""
    for filler in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180d\u180f\u2800\uffa0":
        assert hidden_in_diff(f"+a{filler} = 1\n").startswith(f"Hidden characters: U+{ord(filler):04X}")


def test_edit_that_brings_any_character_that_draws_nothing_is_named():
    signs = [sign for sign in map(chr, range(0x80, 0x110000)) if category(sign) not in ("Zs", "Co", "Cs")]
    unseen = [sign for sign in signs if clean_line(sign) != sign]
    assert {"\u2d7f", "\U00016fe4", "\U0001107f"} < set(unseen) and len(unseen) > 4_000
    assert [sign for sign in unseen if not hidden_in_diff(f"+a{sign} = 1\n")] == []


def test_edit_may_bring_what_a_script_needs():
    for text in (
        "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3",
        "می\u200cشود",
        "שָׁלוֹם",
        "Bonjour\u00a0! 12\u202f%",
        "日本\u3000語",
        "⣿\u2800\u2800⣿\u2800",
        "ᠠ\u180bᠡ",
        "\u1100\u1160\u11a8 \u115f\u1161",
        "\u2d4d\u2d7f\u2d4d",
        "\U00018b00\U00016fe4\U00018b01",
        "\U00011052\U0001107f\U00011053",
    ):
        assert hidden_in_diff(f"+{text}\n") == ""


def test_mixed_scripts_in_a_word_are_named_with_it():
    for text, said in (
        ("py\u0440i x", 'Look-alikes: U+0440 CYRILLIC SMALL LETTER ER in "py\u0440i".'),
        ("\u0441url x", 'Look-alikes: U+0441 CYRILLIC SMALL LETTER ES in "\u0441url".'),
        ("cat n\u03bfde", 'Look-alikes: U+03BF GREEK SMALL LETTER OMICRON in "n\u03bfde".'),
        (
            "p\u0430yp\u0430l p\u0430",
            'Look-alikes: 3 × U+0430 CYRILLIC SMALL LETTER A in "p\u0430yp\u0430l".',
        ),
        ("foo_\u0441", 'Look-alikes: U+0441 CYRILLIC SMALL LETTER ES in "foo_\u0441".'),
        ("cat отчёт.txt отчёт_v2.pdf 報告_v2 λόγος/readme", ""),
    ):
        assert describe_hidden(text) == said
