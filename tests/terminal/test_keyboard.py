"""These tests feed bytes to the key parser alone, in any chunks."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from ikigai.terminal.input.pastes import Pastes
from ikigai.terminal.keyboard import ESC_KEY, MAX_PASTE_BYTES, NEWLINE_KEY, KeyParser

Seen = list[tuple[str, str]]


def keys(*chunks: str, parser: KeyParser | None = None) -> Seen:
    parser = parser or KeyParser()
    pressed = [press for chunk in chunks for press in parser.feed(chunk)]
    pressed += parser.flush()
    return [(str(getattr(press.key, "value", press.key)), press.data) for press in pressed]


def names(*chunks: str) -> list[str]:
    return [name for name, _ in keys(*chunks)]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a", ["a"]),
        ("é日", ["é", "日"]),
        ("\x1b", [ESC_KEY.value]),
        ("\x1b\x1b", [ESC_KEY.value, ESC_KEY.value]),
        ("\x1b[A", [Keys.Up.value]),
        ("\x1bOA", [Keys.Up.value]),
        ("\x1bf", [Keys.Escape.value, "f"]),
        ("\x1b\x1b[D", [Keys.Escape.value, Keys.Left.value]),
        ("\x1b[1;3C", [Keys.Escape.value, Keys.Right.value]),
        ("\x1b\r", [Keys.Escape.value, Keys.ControlM.value]),
        ("\x1b[13;2u", [NEWLINE_KEY.value]),
        ("\x1b[13;5u", [NEWLINE_KEY.value]),
        ("\x1b[27;2;13~", [NEWLINE_KEY.value]),
        ("\x1b[13u", [Keys.ControlM.value]),
        ("\x1b[99;5u", [Keys.ControlC.value]),
        ("\x1b[27;5;99~", [Keys.ControlC.value]),
        ("\x1b[97;2u", ["A"]),
        ("\x1b[97;3u", [Keys.Escape.value, "a"]),
        ("\x1b[9;2u", [Keys.BackTab.value]),
        ("\x1b[27u", [ESC_KEY.value]),
        ("\x9b", []),
        ("\x1b[I\x1b[O", []),
        ("\x1b[12;3R", []),
        ("\x1b[?1;2c", []),
        ("\x1b]11;rgb:1/2/3\x07", []),
        ("\x1b]11;rgb:1/2/3\x1b\\", []),
        ("\x1bP1$r0m\x1b\\", []),
        ("\x1b[[A", [Keys.F1.value]),
        ("\x1b[<0;10;10M", []),
        ("\x1b[999;999;999;999~", []),
    ],
)
def test_sequences(typed: str, expected: list[str]):
    assert names(typed) == expected
    assert names(*typed) == expected
    assert names(typed + "z") == [*expected, "z"] or typed in ("\x1b", "\x1b\x1b", "\x9b")


@given(st.text(alphabet="ab\r\x1b[]OM;~13u2\x07\\<", max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_parser_reads_the_same_keys_from_any_chunks(typed: str, cuts: list[int]):
    places = sorted({0, *(cut for cut in cuts if cut < len(typed)), len(typed)})
    assert keys(typed) == keys(*(typed[a:b] for a, b in pairwise(places)))


PASTED = st.text(alphabet="ab\r\n\x1b[201~\x00\x03é", max_size=60)


@given(PASTED, st.lists(st.integers(0, 90), max_size=6))
def test_paste_is_one_text_from_any_chunks(text: str, cuts: list[int]):
    typed = f"\x1b[200~{text}\x1b[201~"
    places = sorted({0, *(cut for cut in cuts if cut < len(typed)), len(typed)})
    pressed = keys(*(typed[a:b] for a, b in pairwise(places)))
    assert pressed == [(Keys.BracketedPaste.value, text.replace("\r\n", "\n").replace("\r", "\n"))]


def test_keys_behind_a_paste_are_keys():
    assert keys("\x1b[200~x\x1b[201~\r") == [(Keys.BracketedPaste.value, "x"), (Keys.ControlM.value, "\r")]


def test_paste_without_end_ends_after_a_pause(monkeypatch: pytest.MonkeyPatch):
    now = time.monotonic()
    clock = {"now": now}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    parser = KeyParser()
    assert keys("\x1b[200~half", parser=parser) == []
    clock["now"] += 0.5
    assert keys(" more", parser=parser) == []
    clock["now"] += 1.5
    assert keys("x", parser=parser) == [(Keys.BracketedPaste.value, "half more"), ("x", "x")]


def test_paste_has_a_size_limit():
    parser = KeyParser()
    chunk = "x" * (1 << 20)
    pressed = keys("\x1b[200~", *[chunk] * 17, "\x1b[201~", parser=parser)
    assert len(pressed[0][1]) == MAX_PASTE_BYTES
    assert parser.dropped == 1 << 20


def test_labels_stand_for_long_texts():
    pastes = Pastes()
    long, other = "line\n" * 20, "LINE\n" * 20
    assert pastes.collapsed("short") == "short"
    label, second = pastes.collapsed(long), pastes.collapsed(other)
    assert (label, second) == ("[pasted 20 lines]", "[pasted 20 lines, 2]")
    assert pastes.collapsed(long) == label
    assert pastes.collapsed("x" * 5000) == "[pasted 5,000 characters]"
    assert pastes.expanded(f"a {label} b {second} [pasted 9 lines]") == f"a {long} b {other} [pasted 9 lines]"
    assert pastes.label_before(f"a {label}") == label
    assert pastes.label_before(f"{label} b") == pastes.label_before("[pasted 9 lines]") == ""


WHITE = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"
ANSWERS = [
    [WHITE, "\x1b[?62;22c"],
    ["\x1b]11;rgba:0000/0000/0000/ffff\x07", "\x1b[?1;2c"],
    ["\x1b[?6c"],
    ["\x1b]11;#fff\x07"],
]


def asked(*chunks: str, slowly: bool = False) -> tuple[Seen, list[str]]:
    """Return the keys and the answers in the input after a query; with `slowly` there is a pause after each chunk."""
    parser, told = KeyParser(), list[str]()
    parser.expect(told.append)
    pressed = []
    for chunk in chunks:
        pressed += parser.feed(chunk)
        pressed += parser.flush() if slowly else ()
    pressed += parser.flush()
    return [(str(getattr(press.key, "value", press.key)), press.data) for press in pressed], told


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("slowly", [False, True])
def test_answer_is_reported_and_never_typed_however_it_is_cut(answers: list[str], slowly: bool):
    answer = "".join(answers)
    for cut in range(1, len(answer)):
        pressed, told = asked("a", answer[:cut], answer[cut:], "b", slowly=slowly)
        lone = [(ESC_KEY.value, "")] * (slowly and answer[cut - 1] == "\x1b" and answer[cut] in "][")
        assert told == answers, cut
        # An Esc that comes alone cannot be told from the key: it acts at once, and the rest is still no text.
        assert pressed == [("a", "a"), *lone, ("b", "b")], cut


def test_keys_around_an_answer_are_kept(monkeypatch: pytest.MonkeyPatch):
    assert asked(f"ab{WHITE}cd")[0] == [(each, each) for each in "abcd"]
    assert asked(f"\x1b[200~one{WHITE} two\x1b[201~") == ([(Keys.BracketedPaste.value, "one two")], [WHITE])
    assert asked("\x1b]", "x", slowly=True)[0] == [("x", "x")]  # Alt+], and a letter
    assert asked("\x1b", "]x", slowly=True)[0] == [(ESC_KEY.value, ""), ("]", "]"), ("x", "x")]
    for garbage in ("\x1b]11;", "\x1b]11;rgb:ff", "\x1b]11;nonsense", "\x1b]1", "\x1b]11;rgb:ffff/ffff/ffff"):
        assert asked(garbage, "hello", slowly=True)[0] == [(each, each) for each in "hello"], garbage
    now = time.monotonic()
    parser = KeyParser()
    parser.expect(lambda answer: None)
    assert keys("\x1b]11;rgb:ff", parser=parser) == []
    monkeypatch.setattr(time, "monotonic", lambda: now + 3)
    assert keys("face", parser=parser) == [(each, each) for each in "face"]  # too late to belong to it
    assert keys("\x1b]11;rgb:ff", "ff/00/00\x07x", parser=parser) == [("x", "x")]
