"""These tests read the title and the notifications for a user who looks elsewhere, byte for byte."""

import os
import pty
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer

from ikigai.config.records import TerminalSettings
from ikigai.core.events.events import AssistantMessage, Ending, UserMessage
from ikigai.core.events.messages import Text
from ikigai.core.state.fold import end_turn
from ikigai.core.views.questions import yes_or_no
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.terminal import capabilities
from ikigai.terminal.keys.parser import KeyParser
from ikigai.terminal.notifications import FOCUS, NO_FOCUS, POP, PUSH, Notifier, notification_sequence
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import RESET_MODES, Tty
from tests.terminal.console import Console
from tests.terminal.test_foreign import HOSTILE, OBEYED, memory

KITTY = {"TERM": "xterm-kitty"}
CALLED = "\x1b]9;ikigai: owl has answered\x07"
IDLE, BUSY = memory(), memory(UserMessage("?"))
DONE = memory(
    UserMessage("?"),
    AssistantMessage((Text("!"),)),
    end_turn(memory(UserMessage("?"), AssistantMessage((Text("!"),))), (), Ending.COMPLETED, ""),
)


class Front:
    """One end of a pseudo-terminal with a program's Tty on the other."""

    def __init__(self, environ: dict[str, str], **wanted: object) -> None:
        self.master, self.slave = pty.openpty()
        self.tty, self.parser = Tty(self.slave, self.slave, environ), KeyParser()
        self.tty.raw()
        self.area = LiveArea(Theme(plain=True), Buffer())
        self.area.agent, self.area.live.memory = "owl", IDLE
        settings = TerminalSettings(**wanted)  # pyright: ignore[reportArgumentType]
        self.attention = Notifier(self.tty, self.parser, settings, environ)
        self.begun = self.read()

    def read(self) -> str:
        """Return the output since the last call."""
        os.write(self.slave, b"\0")
        data = b""
        while not data.endswith(b"\0"):
            data += os.read(self.master, 4096)
        return data[:-1].decode()

    def look(self) -> str:
        self.attention.look(self.area)
        return self.read()

    def turn(self, seconds: float, shown: TranscriptBlock | None = None) -> str:
        """Play a turn of so many seconds; return the output at its end."""
        self.area.live.memory, self.area.began = BUSY, time.monotonic() - seconds
        self.look()
        self.area.live.memory, self.area.shown = DONE, shown
        return self.look()

    def says(self, focus: str) -> None:
        assert list(self.parser.feed(focus)) == []


@pytest.fixture
def opened() -> Iterator[list[Front]]:
    made: list[Front] = []
    yield made
    for each in made:
        os.close(each.master)
        os.close(each.slave)


def terminal(opened: list[Front], environ: dict[str, str] = KITTY, **wanted: object) -> Front:
    opened.append(Front(environ, **wanted))
    return opened[-1]


def test_title_shows_the_state_and_the_old_one_is_restored(opened: list[Front]):
    made = terminal(opened, notify="off")
    assert made.begun == ""
    assert made.look() == PUSH + "\x1b]2;owl · idle\x1b\\" and made.look() == ""
    made.area.live.memory = BUSY
    assert made.look() == "\x1b]2;owl · working\x1b\\"

    made.tty.restore()
    assert made.read() == POP + RESET_MODES
    made.tty.restore()
    made.area.agent = "other"
    assert made.look() == "", "somebody else has the terminal"
    made.tty.raw()
    made.tty.raw()
    assert made.read() == PUSH + "\x1b]2;other · working\x1b\\"


async def test_question_is_shown_in_the_title_and_notified(opened: list[Front]):
    made = terminal(opened)
    assert made.begun == FOCUS
    made.look()
    made.says("\x1b[O")
    made.area.dialog = Dialog(yes_or_no("Run rm -rf secret?", ()))
    assert made.look() == "\x1b]2;owl · waiting for you\x1b\\\x1b]9;ikigai: owl waits for your answer\x07"
    assert made.look() == ""
    made.area.others = ("warning", "fox asks: /answer")
    assert made.look() == "\x1b]9;ikigai: a background agent waits for you\x07"
    made.area.others = ("warning", "fox asks: /answer · 2 at work")
    assert made.look() == "", "it is the same one"
    made.tty.restore()
    assert made.read() == POP + NO_FOCUS + RESET_MODES


def test_hostile_names_are_text_in_title_and_notification(opened: list[Front]):
    made = terminal(opened)
    made.area.agent = HOSTILE + "x" * 500
    title = made.look().removeprefix(PUSH + "\x1b]2;").removesuffix("\x1b\\")
    assert not OBEYED.search(title) and title.endswith("… · idle") and len(title) <= 60
    for way in ("osc9", "osc777"):
        call = notification_sequence(HOSTILE + ";4;1" + "x" * 500, way, KITTY)
        body = call.removeprefix("\x1b]9;ikigai: ").removeprefix("\x1b]777;notify;ikigai;").removesuffix("\x07")
        assert not OBEYED.search(body) and ";" not in body and len(body) <= 60


@pytest.mark.parametrize(
    ("reported", "seconds", "called"),
    [
        ("\x1b[O", 11, True),
        ("\x1b[I\x1b[O", 11, True),
        ("\x1b[O\x1b[I", 11, False),
        ("", 11, False),
        ("\x1b[O", 5, False),
        ("\x1b[O", 0, False),
    ],
)
def test_user_is_notified_when_away(opened: list[Front], reported: str, seconds: float, called: bool):
    made = terminal(opened, title=False)
    made.says(reported)
    assert made.turn(seconds) == (CALLED if called else "")
    assert made.look() == ""


def test_notification_tells_how_a_turn_ended_and_never_its_text(opened: list[Front]):
    made = terminal(opened, title=False)
    made.says("\x1b[O")
    failed = made.turn(11, TranscriptBlock(1, Speaker.STOPPED, "The key sk-123 is refused.", failed=True))
    assert failed == "\x1b]9;ikigai: owl has failed\x07"
    assert made.turn(11, TranscriptBlock(1, Speaker.STOPPED, "interrupted")) == "\x1b]9;ikigai: owl was stopped\x07"
    made.area.live.memory = BUSY
    made.look()
    made.area.live.memory = None  # another agent comes on stage
    assert made.look() == ""


@pytest.mark.parametrize(
    ("environ", "notify", "written"),
    [
        ({"TERM": "xterm-256color"}, "auto", "\x07"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "auto", CALLED),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "auto", CALLED),
        ({"TERM": "foot"}, "auto", "\x1b]777;notify;ikigai;owl has answered\x07"),
        (KITTY, "bell", "\x07"),
        (KITTY, "off", ""),
        (KITTY | {"TMUX": "x"}, "auto", "\x07"),
        (KITTY | {"TMUX": "x"}, "osc9", "\x1bPtmux;\x1b\x1b]9;ikigai: owl has answered\x07\x1b\\"),
        ({"TERM": "screen", "STY": "x"}, "osc777", "\x1bP\x1b]777;notify;ikigai;owl has answered\x07\x1b\\"),
        ({"TERM": "linux"}, "bell", ""),
        ({"TERM": "dumb"}, "bell", ""),
        ({"TERM": ""}, "osc9", ""),
    ],
)
def test_notification_way(opened: list[Front], environ: dict[str, str], notify: str, written: str):
    made = terminal(opened, environ, notify=notify, title=False)
    assert made.begun == (FOCUS if written else "")
    made.says("\x1b[O")
    assert made.turn(11) == written


@pytest.mark.parametrize(
    ("environ", "strings", "titles", "hyperlinks"),
    [
        ({}, False, False, False),
        ({"TERM": "dumb", "TERM_PROGRAM": "WezTerm"}, False, False, False),
        ({"TERM": "linux"}, False, False, False),
        ({"TERM": "vt100"}, False, False, False),
        ({"TERM": "xterm-256color"}, True, True, False),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, True, True, False),
        ({"TERM": "xterm-256color", "GNOME_TERMINAL_SCREEN": "/x"}, True, True, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, True, True, True),
        (KITTY, True, True, True),
        ({"TERM": "tmux-256color", "TMUX": "x", "TERM_PROGRAM": "WezTerm"}, True, True, False),
        ({"TERM": "screen", "STY": "x"}, True, False, False),
        ({"TERM": "xterm-256color", "FORCE_HYPERLINK": "1"}, True, True, True),
        ({"TERM": "tmux-256color", "TMUX": "x", "FORCE_HYPERLINK": "1"}, True, True, True),
        (KITTY | {"FORCE_HYPERLINK": "0"}, True, True, False),
        (KITTY | {"FORCE_HYPERLINK": ""}, True, True, True),
        ({"TERM": "linux", "FORCE_HYPERLINK": "1"}, False, False, False),
    ],
)
def test_capabilities_follow_the_environment(environ: dict[str, str], strings: bool, titles: bool, hyperlinks: bool):
    assert (capabilities.swallows_osc(environ), capabilities.has_titles(environ)) == (strings, titles)
    assert capabilities.has_hyperlinks(environ) is hyperlinks


def test_focus_reports_are_no_keys_however_they_come():
    parser = KeyParser()
    assert parser.focused is None
    assert list(parser.feed("\x1b")) == list(parser.feed("[")) == list(parser.feed("O")) == []
    assert parser.focused is False
    assert [press.data for press in parser.feed("a\x1b[Ib")] == ["a", "b"] and parser.focused
    paste = [*parser.feed("\x1b[200~x\x1b[Oy\x1b[201~"), *parser.flush()]
    assert [press.data for press in paste] == ["x\x1b[Oy"] and parser.focused, "what is pasted reports nothing"


def test_on_a_screen_with_suspension_and_editor(tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nprintf edited > $1; touch {tmp_path}/left\n")
    editor.chmod(0o755)
    with Console(tmp_path, VISUAL=str(editor), DEMO_NOTIFY="bell") as console:
        console.ready()
        console.until(lambda: console.screen.title == "amber-fox · idle")
        console.send("\x07")  # Ctrl+G
        console.until(lambda: console.prompt == "edited")
        begun, lent, again = console.raw.partition(POP.encode())
        assert FOCUS.encode() in begun and lent and NO_FOCUS.encode() in again
        console.until(lambda: FOCUS.encode() in console.raw.partition(POP.encode())[2])
        console.send("\x15\x1b[Oask 0\r")
        console.until(lambda: console.screen.title == "amber-fox · waiting for you")
        console.until(lambda: console.raw.count(b"\x07") == 1)
        console.send("\x1b")
        console.until(lambda: console.screen.title == "amber-fox · idle")
        console.send("\x1a")  # where no shell can resume it, it comes back by itself
        console.until(lambda: console.raw.count(POP.encode()) == 2 and console.raw.count(PUSH.encode()) == 3)
        console.send("bye\r")
        assert console.ended() == 0
        console.assert_restored()
        assert console.sent[-1] == "bye", "a focus report is no text"
