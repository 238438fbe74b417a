"""These tests feed bytes to the key parser alone, in any chunks."""

import codecs
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.terminal import keyboard  # noqa: F401  it registers how bytes are decoded
from ikigai.terminal.input.sent_prompts import Pastes
from ikigai.terminal.keys.codes import ESC_KEY, NEWLINE_KEY
from ikigai.terminal.keys.parser import MAX_PASTE_BYTES, KeyParser

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
        ("\x1b[32;5u", [Keys.ControlAt.value]),
        ("\x1b[27;5;32~", [Keys.ControlAt.value]),
        ("\x1b[50;5u", [Keys.ControlAt.value]),
        ("\x1b[91;5u", [ESC_KEY.value]),
        ("\x1b[53;5u\x1b[59;5u\x1b[34;6u", []),  # Ctrl with a character that has no control
        ("\x1b[32;2u", [" "]),
        ("\x1b[1089;5u", [Keys.ControlC.value]),  # the key C on a Russian keyboard, with Ctrl
        ("\x1b[1089::99;5u", [Keys.ControlC.value]),
        ("\x1b[1089:1057:99;5:1u", [Keys.ControlC.value]),
        ("\x1b[1057;6u", [Keys.ControlC.value]),
        ("\x1b[27;5;1089~", [Keys.ControlC.value]),
        ("\x1b[1110;5u", [Keys.ControlS.value]),  # Ukrainian
        ("\x1b[968;5u", [Keys.ControlC.value]),  # Greek
        ("\x1b[1489;5u", [Keys.ControlC.value]),  # Hebrew
        ("\x1b[12618;5u", []),  # Korean
        ("\x1b[12618::99;5u", [Keys.ControlC.value]),
        ("\x1b[1080;3u", [Keys.Escape.value, "b"]),
        ("\x1b[1089u", ["с"]),
        ("\x1b[1089;2u", ["С"]),
        ("\x1b[99;9u\x1b[99;17u\x1b[99;33u", []),  # Super, Hyper, Meta
        ("\x1b[13;9u", [NEWLINE_KEY.value]),
        ("\x1b[97;65u\x1b[97;129u", ["a", "a"]),  # with Caps Lock, Num Lock
        ("\x1b[97;1:3u", []),  # released
        ("\x1b[97;1:2u", ["a"]),
        ("\x1b[49:33;2u", ["!"]),
        ("\x1b[97;;97u", ["a"]),
        (f"\x1b[{'9' * 5000}u", []),
        ("\x1b[M !!", []),  # the mouse, as old terminals report it
        ("\x1b[M#\ufffd\x9b", []),
        ("\x1b[M !\x1b[A", [Keys.Up.value]),
        ("\x1b[1;5é", ["é"]),  # broken off
        ("\x1b[1;5\r", [Keys.ControlM.value]),
        ("\x1bO\t", [Keys.ControlI.value]),
        ("\x9bA", [Keys.Up.value]),  # 8-bit controls
        ("\x9b1;5C", [Keys.ControlRight.value]),
        ("\x8fA", [Keys.Up.value]),
        ("\x9d11;rgb:1/2/3\x9c", []),
        ("\x90q\x1b\\", []),
        ("\x84\x9c", []),
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
    assert names(typed + "z") == [*expected, "z"] or typed in ("\x1b", "\x1b\x1b")


@given(
    st.text(alphabet="ab\x1b[]OM;~13u2\x07\\< \x9b\x9c\x9d\u00a0", max_size=30),
    st.lists(st.integers(0, 30), max_size=5),
)
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


@pytest.mark.parametrize("parts", [["\x1b[", "1;5", "C"], ["\x1b[1;", "5C"], ["\x1bO", "Pq"], ["\x1bP1", "$r0m\x1b\\"]])
def test_sequence_goes_on_after_a_pause(parts: list[str]):
    parser = KeyParser()
    pressed = [each for part in parts for each in keys(part, parser=parser)]
    assert [name for name, _ in pressed if len(name) == 1] == ["q"] * (parts[0] == "\x1bO")


@pytest.mark.parametrize("begun", ["\x1b[", "\x1bO", "\x1b]", "\x1bP", "\x1b_", "\x9b"])
@pytest.mark.parametrize("typed", ["hello", "5 apples", "?", "]1", "日本"])
def test_letters_typed_behind_alt_and_the_key_of_a_sequence_are_kept(begun: str, typed: str):
    parser = KeyParser()
    assert keys(begun, parser=parser) == []
    assert [each for char in typed for each in keys(char, parser=parser)] == [(each, each) for each in typed]


def test_bytes_that_are_no_text_are_controls_or_replaced():
    decode = codecs.getincrementaldecoder("utf-8")("ikigai-c1").decode
    text = decode(b"\x9b1;5C\xff\xe6\x97") + decode(b"\xa5\x9d11;rgb:1/2/3\x9c\x9c\x80x")
    assert names(text) == names(*text) == [Keys.ControlRight.value, "\ufffd", "日", "\ufffd", "x"]
    pasted = decode(b"\x1b[200~a\x9bAb\x80\xc2\x9bc\x1b[201~")
    assert keys(pasted) == [(PASTE, "a\ufffdAb\ufffd\x9bc")]


PASTE, ENTER = Keys.BracketedPaste.value, (Keys.ControlM.value, "\r")
LINES = [
    # chunks of one burst, what is pressed
    (["one\rtwo"], [(PASTE, "one\ntwo")]),
    (["one\rtwo\r"], [(PASTE, "one\ntwo\n")]),
    (["a\r", "b\r"], [("a", "a"), (PASTE, "\nb\n")]),
    (["a\r", "b\r", "\r"], [("a", "a"), (PASTE, "\nb\n\n")]),
    (["one\r\ntwo\r\n"], [(PASTE, "one\ntwo\n")]),
    (["\rone\rtwo"], [(PASTE, "\none\ntwo")]),
    (["a\r\r\tb"], [(PASTE, "a\n\n\tb")]),
    (["one\rtw", "o\rthr", "ee"], [(PASTE, "one\ntwo\nthree")]),
    (["one\rtwo\r\x1b[31m\r"], [(PASTE, "one\ntwo\n"), (PASTE, "\n")]),
    (["one\rtwo\x01"], [(PASTE, "one\ntwo"), (Keys.ControlA.value, "\x01")]),
    ([*"a\rb\rc"], [("a", "a"), (PASTE, "\nb\nc")]),  # a slow line
    ([*"a\r\r\tb\r"], [("a", "a"), (PASTE, "\n\n\tb\n")]),
    ([*"/a\n", *"b\r"], [("/", "/"), ("a", "a"), (Keys.ControlJ.value, "\n"), ("b", "b"), ENTER]),
    (["one\ntwo\r"], [(PASTE, "one\ntwo"), ENTER]),  # Ctrl+J, and Enter
    (["one\ntwo\r", "\r"], [(PASTE, "one\ntwo"), ENTER, ENTER]),
    (["one\r"], [("o", "o"), ("n", "n"), ("e", "e"), ENTER]),
    (["e", "\r"], [("e", "e"), ENTER]),
    (["e\r\r"], [("e", "e"), ENTER, ENTER]),
    (["\r\r\r"], [ENTER] * 3),
    (["e\r\x1b[A"], [("e", "e"), ENTER, (Keys.Up.value, "")]),
    (["e\r\x03"], [("e", "e"), ENTER, (Keys.ControlC.value, "\x03")]),
    (["e\x1b[13uf\r"], [("e", "e"), (Keys.ControlM.value, ""), ("f", "f"), ENTER]),
    (["\rthe next"], [ENTER, *((each, each) for each in "the next")]),  # typed while the program was busy
    (["\rb\r"], [ENTER, ("b", "b"), ENTER]),
    (["\x1b[200~a\r\x1b[201~b\r"], [(PASTE, "a\n"), ("b", "b"), ENTER]),
]


@pytest.mark.parametrize(("chunks", "pressed"), LINES)
def test_lines_without_paste_marks_are_one_paste(chunks: list[str], pressed: Seen):
    assert keys(*chunks) == pressed


def test_lines_one_after_another_are_pasted_and_the_next_enter_is_a_key():
    parser = KeyParser()
    assert keys("one\rtwo\r", parser=parser) == [(PASTE, "one\ntwo\n")]
    assert keys("\r", parser=parser) == [ENTER]
    assert keys("e\r", parser=parser) == [("e", "e"), ENTER]


def test_paste_that_halts_for_a_moment_sends_nothing(monkeypatch: pytest.MonkeyPatch):
    clock = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    parser = KeyParser()
    assert keys("one\rtwo\r", parser=parser) == [(PASTE, "one\ntwo\n")]
    clock[0] += 0.5
    assert keys("three\r", parser=parser) == [(PASTE, "three\n")]
    clock[0] += 0.5
    assert keys("end", parser=parser) == [(each, each) for each in "end"]
    clock[0] += 1.5
    assert keys("e\r", parser=parser) == [("e", "e"), ENTER]


def test_enter_between_keys_of_a_fast_typist_is_a_key(monkeypatch: pytest.MonkeyPatch):
    clock = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    parser, pressed = KeyParser(), list[KeyPress]()
    for char in "a\rb\r\rc":
        clock[0] += 0.03
        pressed += parser.feed(char)
    assert [(each.key, each.data) for each in pressed] == [(c, c) if c != "\r" else ENTER for c in "a\rb\r\rc"]


def test_lines_that_waited_for_the_program_keep_their_enter():
    pressed = [each.key for each in KeyParser().feed("a\rb\r", typed_ahead=True)]
    assert pressed == ["a", Keys.ControlM, "b", Keys.ControlM]


def test_time_for_lines_without_marks_grows_with_their_length():
    """An unmarked paste of 10 million characters takes about the time of a marked one."""
    text = "x" * 79 + "\r"
    parser, began = KeyParser(), time.process_time()
    pressed = keys(*[text * 50] * 2500, parser=parser)
    assert [name for name, _ in pressed] == [PASTE] and len(pressed[0][1]) == 10_000_000
    assert time.process_time() - began < 5  # 0.2 s; quadratic would be minutes


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
    for each in "face":  # a person's keys come one by one: too late to belong to it
        assert keys(each, parser=parser) == [(each, each)]
    assert keys("\x1b]11;rgb:ff", "ff/00/00\x07x", parser=parser) == [("x", "x")]


@pytest.mark.parametrize("parts", [2, 3])
def test_late_answer_is_never_typed(monkeypatch: pytest.MonkeyPatch, parts: int):
    clock = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for cut in range(2 if parts == 2 else 5, len(WHITE) - 2):
        parser, told = KeyParser(), list[str]()
        parser.expect(told.append)
        for part in (WHITE[:cut], WHITE[cut : cut + 2], WHITE[cut + 2 :]) if parts == 3 else (WHITE[:cut], WHITE[cut:]):
            assert keys(part, parser=parser) == [], (cut, part)
            clock[0] += 3
        assert told == [WHITE], cut
        assert keys("a", parser=parser) == [("a", "a")]


def test_text_that_might_be_an_answer_is_typed_with_what_cannot_be(monkeypatch: pytest.MonkeyPatch):
    parser = KeyParser()
    assert keys("\x1b]11;rgb:ff", parser=parser) == keys("face", parser=parser) == []
    assert keys("\r", parser=parser) == [*((each, each) for each in "face"), ENTER]
