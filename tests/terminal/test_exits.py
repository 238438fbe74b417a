"""These tests leave the program in every way: modes of the device, paste mode, cursor and wrapping are restored."""

import os
import re
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support import starting
from tests.terminal.console import Console


@pytest.fixture
def own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the program as a child of this process, with an interpreter of its own."""
    monkeypatch.setattr(starting, "own_interpreter", True)


def test_normal_exit_restores_the_terminal(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send("typed but not sent\x1b[D")
        console.until("typed but not sent")
        assert not termios.tcgetattr(console.slave)[0] & termios.IXON  # Ctrl+S is a key
        assert console.modes()["2004"] == "h"
        console.send("\x03/exit\r")
        assert console.ended() == 0
        console.assert_restored()
        assert console.text == ""


@pytest.mark.ordinary("idle-*", "*-SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("state", ["idle", "streaming", "loading"])
def test_signal_restores_the_terminal(
    tmp_path: Path, number: signal.Signals, state: str, request: pytest.FixtureRequest
):
    if state == "loading":
        request.getfixturevalue("own_interpreter")
    with Console(tmp_path) as console:
        console.until("❯")
        if state != "loading":
            console.ready()
        if state == "streaming":
            console.send("stream 500\r")
            console.until("Answering")
        os.kill(console.pid, number)
        assert console.ended() in (128 + number, -number, 1 if number == signal.SIGINT else -number)
        console.assert_restored()
        if state != "loading":
            assert console.told("signal") == [{"what": "signal", "number": number}]
            assert "embedded" not in console.text


UNSTARTED = """
import os, signal
from ikigai.terminal.tty import Tty
tty = Tty()
tty.open("❯ ")
from ikigai.terminal.render.theme import terminal_theme
from ikigai.terminal.screen import Screen, ScreenOptions
from tests.support.silent_handler import SilentHandler
screen = Screen(tty, terminal_theme(os.environ), SilentHandler(), ScreenOptions())
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signal_just_before_the_screen_draws_erases_the_first_prompt(tmp_path: Path):
    with Console(tmp_path, [sys.executable, "-c", UNSTARTED]) as console:
        assert console.ended() == -signal.SIGTERM
        console.assert_restored()
        assert "❯".encode() in console.raw and console.text == ""


@pytest.mark.usefixtures("own_interpreter")
def test_program_ends_when_the_terminal_goes_away(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready()
        os.close(console.slave)
        os.close(console.fd)
        console.fd = console.slave = -1
        deadline = time.monotonic() + 40
        while (gone := os.waitpid(console.pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        console._status = gone[1]
        assert gone[0] and os.waitstatus_to_exitcode(gone[1]) == 128 + signal.SIGHUP
        assert console.told("signal")[0]["number"] == signal.SIGHUP


def shell(tmp_path: Path) -> Console:
    """An interactive shell with job control."""
    console = Console(tmp_path, ["/bin/bash", "--norc", "--noprofile", "-i"], PS1="$ ")
    console.until("$")
    return console


def test_suspended_and_resumed(tmp_path: Path):
    with shell(tmp_path) as console:
        console.send(f"{sys.executable} -m tests.terminal.demo\r")
        console.ready().send("hang\r")
        console.until("Waiting for the model")
        console.send("half a line\x1a")
        console.until("Stopped")
        console.send("stty -a\r")
        console.until(lambda: re.search(r"[^-]icanon", console.text) and re.search(r"[^-]ixon", console.text))
        assert console.modes()["2004"] in "hl" and console.modes()["25"] == "h" and console.modes()["1004"] == "l"
        assert console.raw.count(b"\x1b[22;0t") == console.raw.count(b"\x1b[23;0t") == 1
        console.send("clear; fg\r")
        console.until(lambda: console.prompt == "half a line")
        console.pump(0.3)  # nothing is drawn again below the present value
        assert [console.text.count(once) for once in ("Waiting for the model", "❯ half a line", "embedded")] == [1] * 3
        console.send(" whole\x1b")
        console.until("✗ interrupted")
        console.until(lambda: console.prompt == "half a line whole")
        assert console.text.count("embedded") == 1
        console.until(lambda: console.screen.title == "amber-fox · idle")
        assert console.raw.count(b"\x1b[22;0t") == 2
        console.send("\x03/exit\r")
        console.until(lambda: console.lines[console.screen.cursor.y] == "$")


def test_stopped_and_gone_on_in_the_editor(tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho open$((1+1))\nread line </dev/tty\nprintf "%s" "$line" >"$1"\n')
    editor.chmod(0o700)
    with shell(tmp_path) as console:
        console.send(f"EDITOR={editor} {sys.executable} -m tests.terminal.demo\r")
        console.ready().send("draft\x07")
        console.until("open2")
        console.send("\x1a")
        console.until("Stopped")
        console.until(lambda: console.lines[console.screen.cursor.y] == "$")
        told = console.raw.count(b"-m tests.terminal.demo")
        console.send("fg\r")
        console.until(lambda: console.raw.count(b"-m tests.terminal.demo") > told)  # bash says what goes on
        console.pump(0.3)
        assert "embedded" not in console.text  # the editor has the terminal still
        console.send("edited\r")
        console.until(lambda: console.prompt == "edited")
        console.send("\x03/exit\r")
        console.until(lambda: console.lines[console.screen.cursor.y] == "$")


def test_stopped_from_outside_and_continued(tmp_path: Path):
    with shell(tmp_path) as console:
        console.send(f"{sys.executable} -m tests.terminal.demo & echo pid=$!; fg\r")
        console.ready()
        found = re.search(r"pid=(\d+)", console.history)
        assert found
        os.kill(int(found[1]), signal.SIGTSTP)
        console.until("Stopped")
        console.send("clear; fg\r")
        console.until("embedded")
        console.send("still here\r")
        console.until("You said: still here")


def test_ctrl_z_returns_without_a_shell_to_resume(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send("\x1astill here\r")
        console.until("You said: still here")
