"""These tests check foreign text: characters that a terminal obeys or hides are removed, others are kept."""

import re
import sys
import unicodedata
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.text.sanitize import Cleaner, clean, clean_line, storable

JOINERS = {"\u200c", "\u200d", *map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))}
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def noncharacter(char: str) -> bool:
    return ord(char) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(char) <= 0xFDEF


def forbidden(char: str) -> bool:
    """Return True for a character forbidden outside of a sequence that needs it, by the Unicode database."""
    if char in "\n\t":
        return False
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or noncharacter(char)
        or 0xE0000 <= ord(char) <= 0xE007F
        or char in JOINERS
    )


# Other_Default_Ignorable_Code_Point of PropList.txt; with it the derivation at the head of the property holds.
OTHER_IGNORABLE = {
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0, *range(0xFFF0, 0xFFF9), 0xE0000),
    *(*range(0xE0002, 0xE0020), *range(0xE0080, 0xE0100), *range(0xE01F0, 0xE1000)),
}
FREE_SELECTORS = {0x180B, 0x180C, 0x180D, 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
BLANK = re.compile(r"\b(FILLER|BLANK|NULL NOTEHEAD|INVISIBLE|ZERO WIDTH|NUMBER JOINER|JOINER)\b")
DRAWN = re.compile(r"BLANK SYMBOL|(GAP|LINE) FILLER")  # in spite of the name


def ignorable(char: str) -> bool:
    """Return Default_Ignorable_Code_Point, as DerivedCoreProperties.txt derives it from other properties."""
    code = ord(char)
    drawn = 0xFFF9 <= code <= 0xFFFB or 0x13430 <= code <= 0x13440
    prepended = code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)
    return (
        code in OTHER_IGNORABLE
        or code in FREE_SELECTORS
        or (unicodedata.category(char) == "Cf" and not drawn and not prepended)
    )


def blank(char: str) -> bool:
    name = unicodedata.name(char, "")
    return bool(BLANK.search(name)) and not DRAWN.search(name)


@cache
def every() -> list[str]:
    """Return all characters, but only each 64th of those beyond the first plane that are private or not assigned."""
    assigned = (*range(0x40000), *range(0xE0000, 0xF0000))  # no other plane is, but for private characters
    ends = (code for plane in range(17) for code in (plane << 16 | 0xFFFE, plane << 16 | 0xFFFF))
    return [
        char
        for char in map(chr, sorted({*assigned, *range(0, sys.maxunicode + 1, 64), *ends}))
        if ord(char) < 0x10000
        or ord(char) % 64 == 0
        or 0xE0000 <= ord(char) < 0xE1000
        or unicodedata.category(char) not in ("Cn", "Co")
        or noncharacter(char)
    ]


# Pieces that meet at every seam: sequences whole and cut, joiners with and without context, line ends, letters.
PIECES = [
    *("\x1b", "\x1b[", "\x1b[31", "31;1m", "\x1b[0m", "\x9b", "\x9b2J", "m", "\x1b[?25l", "\x1b(B", "\x1b(", "\x1bc"),
    *("\x1b]", "\x1b]0;title", "\x07", "\x1b\\", "\\", "\x9c", "\x9d8;;http://x", "\x1bP", "\x90q", "\x1b_", "\x9e"),
    *("\r", "\n", "\r\n", "\t", "\0", "\x08", "\x7f", "\x85", "\x18", " ", "a", "é", "字", "7", "#", "\u20e3"),
    *("👩", "💻", "❤", "\ufe0f", "\ufe0e", "\u200d", "\u200c", "\u200b", "می", "क्", "\U000e0101", "\U000e0041"),
    *("\u202e", "\u2066", "\u061c", "\u2028", "\ufeff", "\ud800", "\udc00", "\ufffe", "\ue000", "<U+001B>"),
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=14).map("".join)


def streamed(text: str, cuts: list[int]) -> str:
    cleaner = Cleaner()
    bounds = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return "".join(cleaner.feed(text[a:b]) for a, b in pairwise(bounds)) + cleaner.flush()


def test_no_forbidden_code_point_survives_alone():
    assert {char for char in BIDI if not forbidden(char)} == set()
    for char in every():
        if char == "\r":
            assert clean(char) == "\n"
        elif forbidden(char):
            assert clean(char) == clean_line(char) == f"<U+{ord(char):04X}>"


def test_line_marks_each_code_point_that_does_not_show():
    """Only visible characters are left: letters, marks, digits, signs, and unassigned ones, drawn as boxes."""
    for char in every():
        kind = unicodedata.category(char)
        if char in "\n\r":
            assert clean_line(char) == "⏎"
        elif char in "\t ":
            assert clean_line(char) == " "
        elif forbidden(char) or ignorable(char) or blank(char) or kind in ("Zs", "Co"):
            assert clean_line(char) == f"<U+{ord(char):04X}>", f"U+{ord(char):04X} does not show"
        elif kind != "Cn":
            assert clean_line(char) == char, f"U+{ord(char):04X} shows"
    assert clean_line("a\u3164b") == "a<U+3164>b"


def test_all_other_assigned_code_points_pass():
    changed = [
        char for char in every() if unicodedata.category(char) != "Cn" and not forbidden(char) and clean(char) != char
    ]
    assert changed == []
    letters = "".join(char for char in every() if unicodedata.category(char)[0] in "LMN" and char not in JOINERS)
    assert clean(letters) == letters


@given(texts)
@example("\x1b7\ufe0f\u20e3")
@example("👩\x1b[m\u200d💻")
@example("👩\u200d\x1b[m💻")
def test_idempotent_and_free_of_what_a_terminal_obeys(text: str):
    once = clean(text)
    assert clean(once) == once
    assert all(char in JOINERS for char in once if forbidden(char))
    line = clean_line(text)
    assert clean_line(line) == line
    assert not any(forbidden(char) for char in line)
    assert "\n" not in line and "\t" not in line


@given(texts, st.lists(st.integers(0, 60), max_size=6))
def test_any_split_gives_the_same(text: str, cuts: list[int]):
    assert streamed(text, cuts) == clean(text)
    assert streamed(text, list(range(len(text)))) == clean(text)


@given(st.text(st.characters(max_codepoint=0x7E, min_codepoint=0x20) | st.sampled_from("\n\t")))
def test_plain_ascii_is_untouched(text: str):
    assert clean(text) == text
    assert clean_line(text) == text.replace("\n", "⏎").replace("\t", " ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b[38:2::1:2:3mx\x1b[?2004h\x1b[1 q", "x"),
        ("\x1b]0;title\x07a\x1b]52;c;AAAA\x1b\\b\x9d8;;http://x\x9cc", "abc"),
        ("\x1bPq#0\r\n~\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d\x90x\x9ce", "abcde"),
        ("\x1b(0a\x1bcb\x1b7c\x1b=d\x1b\\e", "abcde"),
        ("\x1bPnot ended by a bell\x07", "<U+001B>Pnot ended by a bell<U+0007>"),
        ("\x1b]cancelled\x18x", "<U+001B>]cancelled<U+0018>x"),
        ("\x1b[31\nx", "<U+001B>[31\nx"),
        ("\x1b\x1b[mx", "<U+001B>x"),
        ("open\x1b]0;for ever", "open<U+001B>]0;for ever"),
        ("50%\r100%\r\ndone\r", "50%\n100%\ndone\n"),
        ("a\x08b\x85c\u2028d", "a<U+0008>b<U+0085>c<U+2028>d"),
        ("rm \u202egnp.exe", "rm <U+202E>gnp.exe"),
        (
            "👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 👍🏽 字\U000e0101",
            "👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 👍🏽 字\U000e0101",
        ),
        ("می\u200cشود क्\u200dष", "می\u200cشود क्\u200dष"),
        ("👩\x1b[m\u200d💻 👩\u200d\x1b[m💻 \x1b7\ufe0f\u20e3", "👩\u200d💻 👩<U+200D>💻 <U+FE0F>\u20e3"),
        ("\ufe0f\u20e3", "<U+FE0F>\u20e3"),
        ("pass\u200dword 👍\u200dx 1\ufe0f", "pass<U+200D>word 👍<U+200D>x 1<U+FE0F>"),
        ("😀\ufe0f\ufe0e\U000e0101", "😀\ufe0f<U+FE0E><U+E0101>"),  # bytes smuggled behind an emoji
        ("🏴\U000e0067\U000e007f", "🏴<U+E0067><U+E007F>"),
        ("\ue0b0 icon\u00a0font", "\ue0b0 icon\u00a0font"),
    ],
)
def test_examples(text: str, expected: str):
    assert clean(text) == expected
    assert streamed(text, list(range(len(text)))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls\r\npwd\rx\ny", "ls⏎pwd⏎x⏎y"),
        ("a\tb", "a b"),
        ("\x1b[8mhidden\x1b[0m", "<U+001B>[8mhidden<U+001B>[0m"),
        ("👩\u200d💻 می\u200cشود ❤\ufe0f", "👩<U+200D>💻 می<U+200C>شود ❤<U+FE0F>"),
        ("rm\u00a0-rf \ue000\u3164\u2800\u3000", "rm<U+00A0>-rf <U+E000><U+3164><U+2800><U+3000>"),
        ("naïve 字 ok", "naïve 字 ok"),
    ],
)
def test_line_hides_nothing(text: str, expected: str):
    assert clean_line(text) == expected


def test_open_sequence_is_held_back_only_so_far():
    cleaner = Cleaner()
    assert cleaner.feed("shown \x1b]0;") == "shown "
    shown, fed = "", 0
    while not shown:
        shown = cleaner.feed("x" * 100)
        fed += 100
        assert fed < 5000
    assert shown == "<U+001B>]0;" + "x" * fed
    assert cleaner.flush() == ""


def test_sequence_is_dropped_up_to_its_longest_length_and_shown_beyond():
    for size, expected in ((4096, "end"), (4097, "<U+001B>]" + "x" * 4097 + "<U+0007>end")):
        text = "\x1b]" + "x" * size + "\x07end"
        assert clean(text) == streamed(text, list(range(0, size, 7))) == expected


def test_flush_leaves_a_cleaner_as_new():
    cleaner = Cleaner()
    assert cleaner.feed("👩\x1b[3") == "👩"
    assert cleaner.flush() == "<U+001B>[3"
    assert cleaner.feed("\u200d💻") == "<U+200D>💻"


@given(st.text(st.characters(), max_size=30))
@example("a\0b\ud800c")
@example("\udcff")
def test_storable_is_what_postgresql_can_hold(text: str):
    safe = storable(text)
    assert "\0" not in safe
    safe.encode()
    assert len(safe) == len(text)
    assert all(
        new == old or (new == "\ufffd" and (old == "\0" or "\ud800" <= old <= "\udfff"))
        for new, old in zip(safe, text, strict=True)
    )
    assert storable(safe) == safe


def test_storable_keeps_every_storable_code_point():
    text = "".join(char for char in every() if char != "\0" and not "\ud800" <= char <= "\udfff")
    assert storable(text) == text
