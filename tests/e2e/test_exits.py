"""The terminal while the program is stopped, and after it was killed, also when it had the other screen."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.account import ECHO, Account
from tests.e2e.program import command, environment
from tests.terminal.console import Console
from tests.terminal.modes import left_on


def shell(account: Account, tmp_path: Path) -> Console:
    """An interactive shell with job control, in which `ikigai` is the program."""
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


@pytest.mark.parametrize("browsing", [False, True], ids=["prompt", "browser"])
def test_stopped_gone_on_killed_and_reset(account: Account, tmp_path: Path, browsing: bool):
    with shell(account, tmp_path) as console:
        console.send("stty -g > before\r")
        console.until(lambda: (account.home / "before").exists() and at_the_shell(console))
        console.send("ikigai & echo pid=$!; fg\r")
        console.until(lambda: " ctx " in console.text)
        found = re.search(r"pid=(\d+)", console.history)
        assert found
        console.send("said\r")
        console.until(lambda: all(part in console.text for part in ("● said", "↑")))
        if browsing:
            console.send("\x14")
            console.until(lambda: console.screen.elsewhere and "q leaves" in console.text)
        console.send("\x1a")
        console.until("Stopped")
        console.until(lambda: at_the_shell(console))
        assert left_on(console.raw) == {} and not console.screen.elsewhere
        assert console.text.count("● said") == 1 and " ctx " not in console.text
        console.send("stty -g > stopped; clear\r")
        console.until(lambda: (account.home / "stopped").exists() and console.text == "$")
        console.send("fg\r")
        console.until(
            lambda: console.screen.elsewhere == browsing and ("q leaves" if browsing else " ctx ") in console.text
        )
        assert left_on(console.raw).get("?2004") == "h" and ("?1049" in left_on(console.raw)) == browsing
        os.kill(int(found[1]), signal.SIGKILL)
        console.until("Killed")
        assert left_on(console.raw)  # nobody could put it back: the README names `reset`
        if shutil.which("reset"):
            console.send("\x15reset\r")
            console.until(lambda: left_on(console.raw) == {})
            console.send("stty -g > part; mv part reset\r")
            console.until(lambda: (account.home / "reset").exists())
            kept = [(account.home / name).read_text() for name in ("before", "stopped", "reset")]
            assert kept[0] == kept[1] and kept[0].split(":")[3] == kept[2].split(":")[3]  # echo, lines, keys
    assert account.run(*ECHO, "-p", "after").stdout == "after\n"
