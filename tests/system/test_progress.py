"""Tests of the progress line: it shows on a capable terminal for long work, and is gone when that is over."""

import asyncio
import os
import pty
import re
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from ikigai.system import progress as module
from ikigai.system.progress import format_progress, show_progress, show_waiting

END = b"<end>"


class Terminal:
    """A terminal behind standard error; `read` is all that was written to it."""

    def __init__(self) -> None:
        self._master, self.slave = pty.openpty()
        self.stderr = os.fdopen(self.slave, "w")
        termios.tcsetwinsize(self.slave, (24, 50))
        self._read = b""

    def read(self) -> str:
        os.write(self.slave, END)  # what was written arrives in its order, a moment later
        while not self._read.endswith(END):
            self._read += os.read(self._master, 1 << 16)
        self._read = self._read.removesuffix(END)
        return self._read.decode()

    def lines(self) -> list[str]:
        """The texts that stood in the line, one after the other."""
        return [text.removesuffix("\x1b[K") for text in self.read().split("\r") if text]

    def takes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Send standard error to this terminal from here on."""
        monkeypatch.setattr(sys, "stderr", self.stderr)

    def close(self) -> None:
        self.stderr.close()
        os.close(self._master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    yield made
    made.close()


def test_bar_is_drawn_over_itself_and_goes(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.takes(monkeypatch)
    monkeypatch.setattr(module, "PROGRESS_POLL", 0.0)
    before = termios.tcgetattr(terminal.slave)
    with pytest.raises(KeyboardInterrupt), show_progress("Exporting") as told:
        told(0, 200)
        told(100, 200)
        told(300, 200)
        raise KeyboardInterrupt
    empty, half, full, gone = terminal.lines()
    assert empty == "Exporting " + "░" * 30 + " 0 %  0 e", "cut where the terminal ends"
    assert half.startswith("Exporting " + "█" * 15 + "░" * 15)
    assert full.startswith("Exporting " + "█" * 30) and gone == ""
    assert all(len(line) <= 49 for line in terminal.lines()), "it never wraps"
    assert termios.tcgetattr(terminal.slave) == before
    assert {*re.findall(r"\x1b[^K]*K?", terminal.read())} == {"\x1b[K"}


def test_quick_work_shows_no_progress(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.takes(monkeypatch)
    monkeypatch.setattr(module, "QUIET_SECONDS", 60.0)
    with show_progress("Exporting") as told:
        told(1, 2)
    assert terminal.read() == ""


def test_not_all_of_it_is_drawn(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.takes(monkeypatch)
    with show_progress("Looking") as told:
        for count in range(5_000):
            told(count, None)
    assert terminal.lines()[0] == "Looking 0 events" and len(terminal.lines()) < 50


def test_once_where_nothing_can_be_drawn_over(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.takes(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(module, "PROGRESS_POLL", 0.0)
    with show_progress("Exporting") as told:
        told(1, 2)
        told(2, 2)
    assert terminal.read() == "Exporting …\r\n"


async def test_waiting_counts_seconds_or_steps(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.takes(monkeypatch)
    monkeypatch.setattr(module, "PROGRESS_POLL", 0.01)

    async def until(text: str) -> None:
        async with asyncio.timeout(60):
            while text not in terminal.read():
                await asyncio.sleep(0.01)

    with pytest.raises(asyncio.CancelledError):
        async with show_waiting("Preparing the database") as told:
            await until("Preparing the database … 0 s")
            told(3, 9)
            await until("Preparing the database 3 of 9")
            raise asyncio.CancelledError
    await asyncio.sleep(0)
    assert terminal.lines()[-1] == "" and not [task for task in asyncio.all_tasks() if task.get_name() == "progress"]


@pytest.mark.parametrize("wanted", [True, False])
async def test_nothing_where_nobody_looks(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    terminal.takes(monkeypatch)
    monkeypatch.setattr(module, "PROGRESS_POLL", 0.0)
    file = (tmp_path / "stderr").open("w")
    if wanted:
        monkeypatch.setattr(sys, "stderr", file)
    with show_progress("Exporting", enabled=wanted) as told:
        told(1, 2)
    async with show_waiting("Preparing", wanted):
        await asyncio.sleep(0.02)
    file.close()
    assert (tmp_path / "stderr").read_text() == terminal.read() == ""


def test_measures() -> None:
    assert (
        format_progress(12_345_678, None, "bytes") == "12.3 MB"
        and format_progress(1_234, None, "events") == "1,234 events"
    )
    assert format_progress(3, 9, "steps") == "3 of 9" and format_progress(5, 0, "bytes") == "0.0 MB"
    assert format_progress(1, 3, "bytes") == "█" * 10 + "░" * 20 + " 33 %  0.0 of 0.0 MB"
