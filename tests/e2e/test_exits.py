"""Tests of the terminal while the program is stopped, and after a kill, also of one with the alternate screen."""

import os
import re
import shutil
import signal
from pathlib import Path

from tests.e2e.account import ECHO, Account
from tests.e2e.program import command, environment
from tests.terminal.console import Console
from tests.terminal.modes import left_on


def shell(account: Account, tmp_path: Path) -> Console:
    """Return an interactive shell with job control, in which `ikigai` is the program."""
    rc = tmp_path / "rc"
    program = " ".join(command(*ECHO))
    rc.write_text(
        f"PS1='$ '\nbind 'set enable-bracketed-paste off'\nikigai() {{ {program} \"$@\"; }}\ncd {account.home}\n"
    )
    argv = ["/bin/bash", "--noprofile", "--rcfile", str(rc), "-i"]
    console = Console(tmp_path, argv, (80, 24), **environment(account.home, **account.environment()))
    console.until(lambda: console.lines[console.screen.cursor.y] == "$")
    return console


def at_the_shell(console: Console) -> bool:
    return console.lines[console.screen.cursor.y] == "$"


def stopped(console: Console, account: Account) -> None:
    """Press Ctrl+Z and check that the shell has the terminal, without a trace of the program."""
    console.send("\x1a")
    console.until("Stopped")
    console.until(lambda: at_the_shell(console))
    assert left_on(console.raw) == {} and not console.screen.elsewhere
    assert console.text.count("● said") == 1 and " ctx " not in console.text
    assert kept(console, account) == kept(console, account, "before")


def kept(console: Console, account: Account, name: str = "now") -> str:
    """Return the settings of the terminal, by the shell; the file `before` holds those that were asked first."""
    file = account.home / name
    if name == "now" or not file.exists():
        file.unlink(missing_ok=True)
        console.send(f"stty -g > part; clear; mv part {name}\r")
        console.until(lambda: file.exists() and console.text == "$")
    return file.read_text()


def test_stopped_gone_on_killed_and_reset(account: Account, tmp_path: Path):
    with shell(account, tmp_path) as console:
        before = kept(console, account, "before")
        console.send("ikigai & echo pid=$!; fg\r")
        console.until(lambda: " ctx " in console.text)
        found = re.search(r"pid=(\d+)", console.history)
        assert found
        console.send("said\r")
        console.until(lambda: all(part in console.text for part in ("● said", "↑")))
        stopped(console, account)
        console.send("fg\r")
        console.until(" ctx ")
        assert left_on(console.raw).get("?2004") == "h"
        console.send("said\r")
        console.until(lambda: "● said" in console.text and "Esc stops" not in console.text)
        console.send("\x14")
        console.until(lambda: console.screen.elsewhere and "q close" in console.text)
        stopped(console, account)
        console.send("fg\r")
        console.until(lambda: console.screen.elsewhere and "q close" in console.text and "loading…" not in console.text)
        assert "?1049" in left_on(console.raw)
        os.kill(int(found[1]), signal.SIGKILL)
        # On the other screen, and without wrapping.
        console.until(lambda: b"Killed" in console.raw and console.lines[console.screen.cursor.y].endswith("$"))
        assert left_on(console.raw)  # nobody could put it back: the page of the input names `reset`
        if shutil.which("reset"):
            console.send("\x15reset\r")
            console.until(lambda: left_on(console.raw) == {})
            assert kept(console, account).split(":")[3] == before.split(":")[3]  # echo, lines, keys that signal
    account.alone()  # what was killed is the shell's own process around it
    assert account.run(*ECHO, "-p", "after").stdout == "after\n"
