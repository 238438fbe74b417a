"""Tests that the program's files are its user's alone, also where the user's other files are open to everybody."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.account import ECHO, Account


@pytest.fixture
def careless() -> Iterator[None]:
    """Let the user's new files be open to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_files_and_folders(account: Account, careless: None):
    assert account.run("config", "init").returncode == 0
    with account.terminal(*ECHO, module="tests.e2e.buggy", columns=200) as program:
        program.ready().type("\x03")
        assert program.ended() == 1
    made = [path for path in account.home.rglob("*") if not path.is_symlink()]
    assert {"config.toml", "ikigai.log"} <= {path.name for path in made}
    assert not [path for path in made if path.stat().st_mode & 0o077]


def test_debug_logs_each_request_without_its_words(account: Account):
    log = account.home / ".local" / "state" / "ikigai" / "ikigai.log"
    assert account.run("-m", "scripted/echo", "-p", "owls at noon").stdout == "owls at noon\n" and not log.exists()
    account.run("--debug", "-m", "scripted/echo", "-p", "owls at noon")
    text = log.read_text()
    assert "ikigai: ikigai 0." in text and "request to scripted/echo, attempt 1: " in text and "complete after" in text
    assert "owls" not in text
