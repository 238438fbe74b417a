"""Tests that the program's files are its user's alone, and that files of tools have the modes that the user wants."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.account import ECHO, Account


@pytest.fixture(params=[0, 0o022, 0o077], ids=["0", "022", "077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_own_files_are_private_and_those_of_tools_have_the_umask_of_the_user(account: Account, umask: int) -> None:
    assert account.run("config", "init").returncode == 0
    project = account.home / "project"
    calls = [
        {"do": "call", "name": "shell", "arguments": {"command": "mkdir project && touch project/by-shell"}},
        {"do": "call", "name": "write_file", "arguments": {"path": "project/new/by-tool", "content": "x"}},
    ]
    flags = account.script([calls[0]], [calls[1]], "Done.")
    done = account.run(*flags, "--yolo", "-p", "go", IKIGAI_TOOLS_ENABLED="true")
    assert done.stdout == "Done.\n", done
    export = account.run("history", "export", "--agent", *account.agents(), "-o", str(project / "talk.md"))
    assert export.returncode == 0
    with account.terminal(*ECHO, module="tests.e2e.buggy", columns=200) as program:
        program.ready().type("\x03")
        assert program.ended() == 1
    with account.terminal(*ECHO, columns=100) as program:
        program.ready().type("!touch project/by-user\r")
        program.wait(lambda: (project / "by-user").exists(), "the file")
    files = "by-shell", "by-user", "new/by-tool"
    assert {name: mode_of(project / name) for name in files} == dict.fromkeys(files, 0o666 & ~umask)
    assert [mode_of(folder) for folder in (project, project / "new")] == [0o777 & ~umask] * 2
    own = [path for path in account.home.rglob("*") if not path.is_symlink() and not path.is_relative_to(project)]
    assert {"config.toml", "ikigai.log", ".config", ".local"} <= {path.name for path in own}
    own = [path for path in own if path.name != "script.json"]
    assert not [path for path in (*own, project / "talk.md") if mode_of(path) & 0o077]


def test_debug_logs_each_request_without_its_words(account: Account):
    log = account.home / ".local" / "state" / "ikigai" / "ikigai.log"
    assert account.run("-m", "scripted/echo", "-p", "owls at noon").stdout == "owls at noon\n" and not log.exists()
    account.run("--debug", "-m", "scripted/echo", "-p", "owls at noon")
    text = log.read_text()
    assert "ikigai: ikigai 0." in text and "request to scripted/echo, attempt 1: " in text and "complete after" in text
    assert "owls" not in text
