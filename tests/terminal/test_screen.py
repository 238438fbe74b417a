"""These tests drive the screen on a real pseudo-terminal: keys, their effects and the rows shown."""

import random
import re
from pathlib import Path

import pytest

from ikigai.core.commands.table import COMMANDS
from tests.terminal.console import Console
from tests.terminal.modes import ENTER

NEWLINES = {
    "Ctrl+J": "\n",
    "Alt+Enter": "\x1b\r",
    "Shift+Enter, CSI u": "\x1b[13;2u",
    "Shift+Enter, modifyOtherKeys": "\x1b[27;2;13~",
    "trailing backslash": f"\\{ENTER}",
}

OURS = re.compile(
    rb"\x1b(?:\[(?:[\d;]*m|\d*[ABCKJ]|c|2[23];0t|\?(?:25|7|2004|2026|1000|1002|1003|1004|1006)[hl])|[78]"
    rb"|\]2;amber-fox \xc2\xb7 (?:idle|working)\x1b\\|\]133;(?:A;redraw=0|B|C|D;0)\x1b\\|\]11;\?\x1b\\)"
)
"""All escape sequences that the screen writes."""


@pytest.fixture
def console(tmp_path: Path):
    with Console(tmp_path) as console:
        yield console.ready()


def painted(console: Console) -> None:
    """Wait for a paint behind the earlier prompts, which are read with it."""
    console.send("x")
    console.until(lambda: console.prompt == "x")
    console.send("\x7f")
    console.until(lambda: console.prompt == "")


def test_input_is_echoed_and_sent_and_shown_once(console: Console):
    console.send("hello wörld 日本")
    console.until(lambda: console.prompt == "hello wörld 日本")
    console.send("\r")
    console.until("● You said: hello wörld 日本")
    assert console.sent == ["hello wörld 日本"]
    console.until(lambda: console.prompt == "")
    assert console.history.count("❯ hello wörld 日本") == 1


@pytest.mark.parametrize("keys", NEWLINES.values(), ids=NEWLINES)
def test_newline(console: Console, keys: str):
    console.send(f"one{keys}two\r")
    console.until(lambda: console.sent)
    assert console.sent == ["one\ntwo"]


def test_unknown_sequences_are_swallowed_whole(console: Console):
    console.send("a\x1b[99;99;99Xb\x1b]11;rgb:0/0/0\x07c\x1b[<0;1;1Md\x1b[57441;1ue\x1bOzf\r")
    console.until(lambda: console.sent)
    assert console.sent == ["abcdef"]
    assert not console.told("interrupt")


def test_typed_before_the_first_paint(tmp_path: Path):
    with Console(tmp_path) as console:
        console.send("early\rand more")
        console.until(lambda: console.prompt == "and more")
        assert console.sent == ["early"]


def test_typed_while_loading(tmp_path: Path):
    with Console(tmp_path) as console:
        console.until("❯")
        console.send(f"at once{ENTER}then this")
        console.until(lambda: console.prompt == "then this")
        assert console.sent == ["at once"]


def test_words_and_lines_are_edited_by_keys(console: Console):
    console.send("one two three\x1b[1;3D\x1b[1;3D\x1b[1;5DX\x01>\x05\x17")  # Alt+Left twice, Ctrl+Left, Home, End
    console.until(lambda: console.prompt == ">Xone two")
    console.send("\x1f")  # undo
    console.until(lambda: console.prompt == ">Xone two three")


def test_esc_interrupts_and_keeps_what_came(console: Console):
    console.send("hang some words\r")
    console.until("Answering")
    console.send("\x1b")
    console.until("✗ interrupted")
    assert len(console.told("interrupt")) == 1
    assert console.history.count("● some words") == 1
    assert "Esc stops" not in console.text
    console.send("\x1b")
    console.pump(0.3)
    assert len(console.told("interrupt")) == 1


def test_ctrl_c(console: Console):
    console.send("hang\r")
    console.until("Waiting for the model")
    console.send("typed\x03")
    console.until("✗ interrupted")
    console.until(lambda: console.prompt == "typed")
    console.send("\x03")
    console.until(lambda: console.prompt == "")
    for _ in range(2):
        hints = console.raw.count(b"Ctrl+C again leaves")
        console.send("\x03")
        console.until(lambda hints=hints: console.raw.count(b"Ctrl+C again leaves") > hints)
        console.until(lambda: "again leaves" not in console.text)
        assert not console.told("quit")
    console.send("\x03\x03")  # together: the second counts for a moment only
    assert console.ended() == 0
    assert console.told("quit")
    console.assert_restored()


def test_ctrl_d_quits_on_an_empty_line_only(console: Console):
    console.send("x\x04")
    console.pump(0.2)
    assert not console.told("quit")
    console.send("\x08\x04")
    assert console.ended() == 0
    console.assert_restored()


def test_enter_while_busy_queues_and_up_takes_back(console: Console):
    console.send("hang\r")
    console.until("Waiting")
    console.send(f"first{ENTER}second\r")
    console.until("next: second")
    assert "next: first" in console.text
    console.send("\x1b[A")
    console.until(lambda: console.prompt == "second")
    console.until(lambda: "next: second" not in console.text)


def test_history_and_search(console: Console):
    painted(console)
    console.send("\x1b[A")
    console.until(lambda: console.prompt == "old prompt 0")
    console.send("\x1b[A\x1b[B\x1b[B")
    console.until(lambda: console.prompt == "")
    console.send("\x12prompt 37")
    console.until(lambda: console.prompt.startswith("old prompt 37\n"))
    console.send("\r")
    console.until(lambda: "search:" not in console.text and console.prompt == "old prompt 37")
    console.send("\x03")
    console.until(lambda: console.prompt == "")
    console.send("a draft\x12prompt 1")
    console.until(lambda: console.prompt.startswith("old prompt 1\n") and "old prompt 16" in console.text)
    console.send("\x12\x1b[A")  # two older ones
    console.until(lambda: console.prompt.startswith("old prompt 11\n"))
    console.send("\x13")
    console.until(lambda: console.prompt.startswith("old prompt 10\n"))
    console.send("x")
    console.until(lambda: "search (nothing found): prompt 1x" in console.text and console.prompt == "a draft")
    console.send("\x7f2\x1b")
    console.until(lambda: "search" not in console.text and console.prompt == "a draft")
    assert not console.sent


def test_commands_complete(console: Console):
    console.send("/")
    console.until("start with an empty context")
    offered = sum(row.strip().startswith("/") for row in console.text.split("\n"))
    assert f"  and {len(COMMANDS) - offered} more\n" in console.text
    console.send("sta")
    console.until(lambda: "/clear" not in console.text and "/status" in console.text)
    assert " more\n" not in console.text
    console.send("\t")
    console.until(lambda: console.prompt.startswith("/status"))
    console.send("\x03/model mini")
    console.until("openai/gpt-5-mini\n")
    console.send("\t")
    console.until(lambda: console.prompt.startswith("/model openai/gpt-5-mini"))
    console.send("\x1b")
    console.until(lambda: console.prompt == "/model openai/gpt-5-mini")
    console.send("\r")
    console.until(lambda: console.sent)
    assert console.sent == ["/model openai/gpt-5-mini"]


@pytest.mark.parametrize("keys", ["\x07", "\x18\x05"], ids=["Ctrl+G", "Ctrl+X Ctrl+E"])
def test_editor_gets_the_text_and_returns_it(tmp_path: Path, keys: str):
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\nstty -a > {tmp_path}/stty\ncp "$1" {tmp_path}/seen\nprintf "\\nedited\\n" >> "$1"\n')
    editor.chmod(0o700)
    pasted = "\n".join(f"line {number}" for number in range(30))
    with Console(tmp_path, VISUAL=str(editor)) as console:
        console.ready().send("draft ")
        console.send(f"\x1b[200~{pasted}\x1b[201~")
        console.until(lambda: console.prompt == "draft [pasted 30 lines]")
        console.send(keys)
        console.until(lambda: console.prompt == "[pasted 31 lines]")
        assert (tmp_path / "seen").read_text() == f"draft {pasted}"
        assert re.search(r"[^-]icanon.*[^-]echo ", (tmp_path / "stty").read_text(), re.DOTALL)
        console.send("\r")
        console.until(lambda: console.sent)
        assert console.sent == [f"draft {pasted}\nedited"]


def test_missing_editor_is_reported(tmp_path: Path):
    with Console(tmp_path, EDITOR="/no/such/editor") as console:
        console.ready().send("draft\x07")
        console.until("⚠ The editor /no/such/editor cannot be started: No such file or directory.")
        console.until(lambda: console.prompt == "draft")


def test_hints_waits_tools_and_thoughts_are_shown(console: Console):
    waits = re.compile(
        r"Trying again in (30|2\d) s \(attempt 2 of 8\) · Enter: now · Esc stops\n  The provider is overloaded\."
    )
    console.send("retry\r")
    console.until(lambda: waits.search(console.text))
    first = waits.findall(console.text)
    console.until(lambda: waits.search(console.text) and waits.findall(console.text) < first)
    console.send("\x1b")
    console.until("✗ interrupted")
    console.until("⚠ The provider is overloaded. Enter on the empty line tries again.")
    console.send("tools\r")
    console.until(lambda: b"Running read_file, shell" in console.raw)  # it does not stand there for long
    console.until("● That is what there is.")
    assert "→ read /etc/passwd (20 lines)\n→ shell ls -l⏎\n← no such file" in console.text
    assert console.history.count("● Let me look.") == 1
    console.send("think\r")
    console.until(lambda: "Thinking…".encode() in console.raw)
    console.until("● Thought through.")
    assert console.history.count("∴ thought: the quick brown fox") == 1


def test_status_line_reports_an_unreachable_database(console: Console):
    assert "openai/gpt-5-mini:med · ctx 500/2k █░░░ 25% · embedded" in console.text
    console.send("trouble\r")
    console.until("· embedded unreachable")


def test_ctrl_l_draws_the_live_area_once_more(console: Console):
    console.send("notice look here\r")
    console.until("⚠ look here")
    console.send("typed\x0c")
    console.pump(0.3)
    assert console.prompt == "typed"
    assert console.history.count("⚠ look here") == console.history.count("embedded") == 1


def test_history_is_drawn_with_the_rule_in_its_place(tmp_path: Path):
    with Console(tmp_path, DEMO_HISTORY="1") as console:
        console.until("It keeps whole turns under a budget.")
        lines = console.lines
        rule = next(index for index, line in enumerate(lines) if "12 turns out" in line)
        assert lines[0] == "· 1,234 earlier events are not shown again"
        assert lines[rule - 1] == lines[rule + 1] == ""
        assert lines[rule - 2] == "● An earlier answer."
        assert lines[rule + 2].startswith("❯ What is a sliding window")
        assert len(lines[rule]) == 80 and lines[rule].strip("─").strip() in lines[rule]


def test_long_history_shows_the_rule_and_the_end(tmp_path: Path):
    with Console(tmp_path, DEMO_LONG_HISTORY="1") as console:
        console.ready().until(lambda: console.history.count("P008") >= 2)
        text = console.history
        assert text.index("5 turns out") < text.index("earlier events are not shown again") < text.index("❯ asked")
        assert text.count("P008") <= 4


def test_foreign_text_reaches_the_terminal_harmless(console: Console):
    console.send("hostile\r")
    console.until("second")
    console.until(lambda: "Answering" not in console.text)
    assert OURS.sub(b"", console.raw).translate(None, b"\r\n").find(b"\x1b") < 0
    assert not re.search(rb"[\x00-\x09\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]", console.raw)
    assert not re.search("[\x80-\x9f\u202a-\u202e\U000e0000-\U000e007f]", console.raw.decode())
    assert "<U+202E>evil" in console.text


def test_no_color_removes_all_colors(tmp_path: Path):
    with Console(tmp_path, NO_COLOR="1", DEMO_HISTORY="1") as console:
        console.ready().send("stream 5\r")
        console.until("P005")
        console.until(lambda: "Answering" not in console.text)
        codes = {code for codes in re.findall(rb"\x1b\[([\d;]*)m", console.raw) for code in codes.split(b";")}
        assert codes <= {b"", b"0", b"1", b"2", b"3", b"4", b"7", b"9"}


def test_dumb_terminal_gets_no_escape_sequence(tmp_path: Path):
    with Console(tmp_path, TERM="dumb", DEMO_HISTORY="1") as console:
        console.until("under a budget")
        console.send("hello\x01X\r")
        console.until("You said: Xhello")
        console.send("stream 3\r")
        console.until("P003")
        console.until(lambda: console.lines[console.screen.cursor.y].startswith("❯"))
        assert console.sent == ["Xhello", "stream 3"]
        assert all(console.history.count(f"P00{number}") == 1 for number in (1, 2, 3))
        console.send("/exit\r")
        assert console.ended() == 0
        assert b"\x1b" not in console.raw
        console.assert_restored()


@pytest.mark.ordinary("(20, 5)", "(8, 3)")
@pytest.mark.parametrize("size", [(20, 5), (40, 8), (8, 3)], ids=str)
def test_small_terminals(tmp_path: Path, size: tuple[int, int]):
    with Console(tmp_path, size=size, DEMO_HISTORY="1") as console:
        console.ready().send("what is it that you said to me then\r")
        console.until(lambda: console.sent)
        console.send("stream 4\r")
        console.until(lambda: "x + 4" in console.history and "Answering" not in console.text)
        console.send("/exit\r")
        assert console.ended() == 0
        console.assert_restored()
        said = re.sub(r"\s+", "", console.history)
        assert all(said.count(f"P00{number}") == 1 for number in (1, 2, 3, 4))


def test_screen_survives_many_absurd_sizes(console: Console):
    chance = random.Random(1)
    console.send("stream 30\r")
    for _ in range(60):
        console.resize(*chance.choice(((1, 1), (2, 2), (500, 2), (3, 60), (80, 24), (20, 5), (119, 40))))
        console.pump(0.02)
    console.resize(80, 24)
    console.until(lambda: "P030" in "".join(console.history.split()))  # whatever width it was drawn for
    console.until(lambda: "Answering" not in console.text and "embedded" in console.text)
    console.send("still here")
    console.until(lambda: console.prompt == "still here")


def test_bug_in_the_screen_ends_it_and_restores_the_terminal(console: Console):
    console.send("boom\r")
    assert console.ended() == 1
    console.assert_restored()
    assert "failed: boom" in console.text


def test_newest_prompt_with_the_typed_beginning_is_suggested_and_sent_only_when_accepted(console: Console):
    painted(console)
    console.send("old")
    console.until(lambda: console.prompt == "old prompt 0")
    assert console.screen.cursor.x == len("❯ old")
    assert b"\x1b[2m prompt 0" in console.raw
    console.send("\x1b[1;3C")  # Alt+Right: a word of it
    console.until(lambda: console.screen.cursor.x == len("❯ old prompt"))
    console.send("\x1b[D!")
    console.until(lambda: console.prompt == "old promp!t")  # not at the end: none
    console.send("\x03old p\r")
    console.until(lambda: console.sent)
    assert console.sent == ["old p"]
    for keys in ("\x1b[C", "\x1b[F", "\x05"):  # Right, End, Ctrl+E
        console.send("old prompt 4")
        console.until(lambda: console.screen.cursor.x == len("❯ old prompt 4"))
        console.send(keys)
        console.until(lambda: console.screen.cursor.x == len("❯ old prompt 40"))
        console.send("\x15")
        console.until(lambda: console.prompt == "")
    assert console.sent == ["old p"]


def test_suggestions_need_color(tmp_path: Path):
    with Console(tmp_path, NO_COLOR="1") as console:
        painted(console.ready())
        console.send("old pro")
        console.until(lambda: console.prompt == "old pro")
        console.send("\x1b[C\r")
        console.until(lambda: console.sent)
        assert console.sent == ["old pro"]


def test_vi_mode_is_shown_when_keys_are_commands(tmp_path: Path):
    with Console(tmp_path, DEMO_VI="1") as console:
        console.ready().send("one two")
        console.until(lambda: console.prompt == "one two")
        console.send("\x1b")
        console.until("NORMAL · amber-fox")
        console.send("0dw")
        console.until(lambda: console.prompt == "two")
        assert re.findall(rb"\x1b\[(\d) q", console.raw) == [b"6", b"2"], "a bar, then a block"
        console.send("A!\r")
        console.until(lambda: console.sent)
        assert console.sent == ["two!"]
        console.until(lambda: "NORMAL" not in console.text)
        console.send("/exit\r")
        assert console.ended() == 0
        assert re.findall(rb"\x1b\[(\d) q", console.raw) == [b"6", b"2", b"6", b"0"]
        console.assert_restored()


def test_cursor_shape_is_unchanged_without_vi(console: Console):
    console.send("/exit\r")
    assert console.ended() == 0
    assert re.search(rb"\x1b\[\d* q", console.raw) is None
