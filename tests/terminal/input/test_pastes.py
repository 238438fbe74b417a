"""These tests paste on a real pseudo-terminal: a paste is only text, however long and whatever it holds."""

import time
from pathlib import Path

import pytest

from tests.terminal.console import END, PASTE, Console
from tests.terminal.modes import ENTER


@pytest.fixture
def console(tmp_path: Path):
    with Console(tmp_path) as console:
        yield console.ready()


def paste(console: Console, text: str) -> None:
    console.send(PASTE + text.encode() + END)


def test_short_paste_is_inserted_and_never_sent(console: Console):
    paste(console, "one\r\ntwo\rthree\n")
    console.until(lambda: console.prompt == "one\ntwo\nthree\n")
    assert not console.sent
    console.send("four\r")
    console.until(lambda: console.sent)
    assert console.sent == ["one\ntwo\nthree\nfour"]


def test_lines_of_a_terminal_without_paste_marks_are_one_message(console: Console):
    console.send("".join(f"line {number} of what was pasted\r" for number in range(1999)) + "end" + ENTER)
    console.until("… 1,960 more lines")
    console.until("● You said: line 0 of what")
    assert len(console.sent) == 1


def test_enter_behind_pasted_lines_sends_them_and_the_last_line_end_does_not(console: Console):
    console.send("one\rtwo\r")
    console.until(lambda: console.prompt == "one\ntwo\n")
    assert not console.sent
    console.send("\r")
    console.until(lambda: console.sent)
    assert console.sent == ["one\ntwo\n"]


def test_end_mark_inside_a_paste_is_text(console: Console):
    paste(console, "begin\x1b[201~rm -rf /\r\x03\x04end")
    console.pump(0.3)
    assert not console.sent and not console.told("quit")
    console.send("\r")
    console.until(lambda: console.sent)
    assert console.sent == ["begin\x1b[201~rm -rf /\n\x03\x04end"]


def test_control_characters_are_kept_and_shown_harmless(console: Console):
    text = "nul \x00 esc \x1b[2J c1 \x9b bidi \u202e tab\tend"
    paste(console, text)
    console.until("end")
    assert "nul <U+0000> esc <U+001B>[2J c1 <U+009B> bidi <U+202E> tab" in console.prompt.replace("\n", "")
    assert b"\x1b[2J" not in console.raw and b"\x00" not in console.raw
    console.send("\r")
    console.until(lambda: console.sent)
    assert console.sent == [text]


def test_many_lines_collapse_and_expand_when_sent(console: Console):
    text = "\n".join(f"line {number}" for number in range(1000))
    console.send("see ")
    paste(console, text)
    console.until(lambda: console.prompt == "see [pasted 1,000 lines]")
    paste(console, text + "\nand more")
    console.until(lambda: console.prompt.endswith("[pasted 1,001 lines]"))
    console.send("\x7f")
    console.until(lambda: console.prompt == "see [pasted 1,000 lines]")
    console.send("\r")
    console.until(lambda: console.sent)
    assert console.told("submit")[0]["length"] == len("see " + text)
    console.send("\x1b[A")
    console.until(lambda: console.prompt == "see [pasted 1,000 lines]")


@pytest.mark.ordinary("1 MB")
@pytest.mark.parametrize("size", [1 << 20, 10 << 20], ids=["1 MB", "10 MB"])
def test_huge_paste_does_not_block(console: Console, size: int):
    line = "x" * 99 + "\n"
    began = time.monotonic()
    paste(console, line * (size // 100))
    console.until("[pasted", 30)
    console.send("!\r")
    console.until(lambda: console.sent, 30)
    assert console.told("submit")[0]["length"] == size // 100 * 100 + 1
    assert time.monotonic() - began < 30
    console.until("…", 30)
    console.until("You said", 30)


def test_keyboard_works_after_a_lost_end_mark(console: Console):
    console.send(b"x" + PASTE + b"half a paste")
    console.until(lambda: console.prompt.startswith("x"))  # it has been read
    console.pump(1.3)
    console.send("\x05!\r")
    console.until(lambda: console.sent)
    assert console.sent == ["xhalf a paste!"]
