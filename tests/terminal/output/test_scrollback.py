"""These tests resize tmux, which rewraps its rows: one copy of everything, and one live area."""

import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.examples import seeds
from tests.terminal.console import ROOT, STATUS

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    def __init__(self, folder: str) -> None:
        self._socket = str(Path(folder) / "s")
        limit = ("set", "-g", "history-limit", "50000", ";")  # it holds for panes made after it
        shell = f"cd {ROOT}; exec bash --norc -i"
        self.run("-f", "/dev/null", "start-server", ";", *limit, "new-session", "-d", "-x", "80", "-y", "24", shell)
        self.run("set", "-g", "window-size", "manual")

    def run(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, timeout=30)
        return done.stdout

    def start(self, environ: str = "DEMO_PACE=0.003") -> None:
        self.keys(f"PS1='$ '; clear; {environ} {sys.executable} -m tests.terminal.demo", "Enter")
        self.until(STATUS)

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def all(self) -> str:
        """Return the scrollback and the screen."""
        return self.run("capture-pane", "-p", "-S", "-")

    def until(self, wanted: str | Callable[[str], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not (wanted in self.all() if isinstance(wanted, str) else wanted(self.all())):
            assert time.monotonic() < deadline, f"{wanted!r} did not come:\n{self.all()}"
            time.sleep(0.05)

    def settled(self) -> str:
        """Return everything, once nothing is under way and three looks agree."""
        before, alike = "", 0
        for _ in range(100):
            now = self.all()
            alike = alike + 1 if now == before else 1
            if alike >= 3 and "Esc stops" not in now and STATUS in now:
                return now
            before = now
            time.sleep(0.5)
        raise AssertionError(f"it does not settle:\n{before}")


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    with tempfile.TemporaryDirectory(prefix="tmux-", dir="/tmp") as folder:
        tmux = Tmux(folder)
        try:
            yield tmux
        finally:
            tmux.run("kill-server")


def assert_one_copy(text: str, paragraphs: int) -> None:
    flat = re.sub(r"\s+", " ", text)
    counts = {number: flat.count(f"P{number:03}") for number in range(1, paragraphs + 1)}
    assert set(counts.values()) == {1}, (counts, text)
    assert text.count(STATUS) == 1 and text.count("❯ stream") == 1, text
    assert len(re.findall(r"^❯$", text, re.MULTILINE)) == 1, text
    assert "Esc stops" not in text and "Answering" not in text, text


def test_long_answer_is_printed_once(tmux: Tmux):
    tmux.start("DEMO_PACE=0")
    tmux.keys("stream 300", "Enter")
    tmux.until("P300")
    text = tmux.settled()
    assert_one_copy(text, 300)
    places = [text.index(f"P{number:03}") for number in range(1, 301)]
    assert places == sorted(places)


@pytest.mark.long
def test_ten_thousand_lines_are_there_once_after_three_resizes(tmux: Tmux):
    tmux.start("DEMO_PACE=0.0005")
    tmux.keys("lines 10000", "Enter")
    tmux.until("L02000", 60)
    for columns, rows in ((60, 30), (44, 20), (80, 24)):
        tmux.resize(columns, rows)
        time.sleep(0.5)
    tmux.until("L10000", 120)
    for columns, rows in ((44, 15), (100, 30), (80, 24)):
        tmux.resize(columns, rows)
        time.sleep(0.5)
    text = tmux.settled()
    numbers = [int(number) for number in re.findall(r"L(\d{5})", text)]
    assert numbers == list(range(1, 10_001))
    assert text.count(STATUS) == text.count("❯ lines 10000") == len(re.findall(r"^❯$", text, re.MULTILINE)) == 1


def test_resized_while_idle(tmux: Tmux):
    tmux.start("DEMO_PACE=0 DEMO_HISTORY=1")
    tmux.keys("stream 3", "Enter")
    tmux.until("P003")
    tmux.settled()
    tmux.keys("a line of input that is long enough to be wrapped when it gets narrow")
    for columns, rows in ((60, 24), (40, 24), (80, 30), (33, 20), (100, 24), (44, 15), (80, 24)):
        tmux.resize(columns, rows)
        time.sleep(0.5)
    text = tmux.settled()
    assert text.count("a line of input that is long enough") == 1
    assert text.count("12 turns out") == text.count("An earlier question?") == 1
    tmux.keys("C-c")
    tmux.until(lambda text: re.search(r"^❯$", text, re.MULTILINE) is not None)
    assert_one_copy(tmux.settled(), 3)


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_resized_in_storms_while_streaming(tmux: Tmux, seed: int):
    chance = random.Random(seed)
    tmux.start("DEMO_PACE=0.006 DEMO_HISTORY=1")
    tmux.until("under a budget")  # tmux moves what stands at the very top into its history, where nobody can erase it
    tmux.keys("stream 12", "Enter")
    for _ in range(25):
        tmux.resize(chance.choice((80, 60, 44, 100, 72)), chance.choice((24, 30, 20)))
        time.sleep(chance.choice((0.01, 0.03, 0.05, 0.1, 0.3, 0.4)))
    tmux.resize(80, 24)
    tmux.until("P012")
    assert_one_copy(tmux.settled(), 12)


def test_stopped_and_gone_on_while_streaming(tmux: Tmux):
    tmux.start("DEMO_PACE=0.03")  # it has to be seen at work, and stopped, twice
    tmux.keys("stream 12", "Enter")
    for times, part in enumerate(("P002", "P005"), start=1):
        tmux.until(part)
        tmux.keys("C-z")
        tmux.until(lambda text, times=times: text.count("Stopped") == times and text.rstrip().endswith("\n$"))
        tmux.keys("fg", "Enter")
        tmux.until("Esc stops")
    tmux.until("P012")
    text = tmux.settled()
    flat = re.sub(r"\s+", " ", text)
    assert [flat.count(f"P{number:03} ") for number in range(1, 13)] == [1] * 12, text
    assert text.count(STATUS) == len(re.findall(r"^❯$", text, re.MULTILINE)) == 1, text
    assert "Esc stops" not in text and "Answering" not in text, text


def test_started_at_the_top_of_the_screen(tmux: Tmux):
    tmux.start()
    tmux.keys("notice one", "Enter")
    tmux.until("⚠ one")
    tmux.keys("/")
    tmux.until("❯ /")
    tmux.keys("C-c")
    tmux.until(lambda text: re.search(r"^❯$", text, re.MULTILINE) is not None)
    text = tmux.settled()
    assert text.count(STATUS) == 1 and text.count("❯") == 1 and text.count("⚠ one") == 1


def test_drawn_again_after_the_size_settles(tmux: Tmux):
    tmux.start()
    # tmux takes rows at the very top of a half-empty screen into its history when it narrows; nobody can undo that.
    for number in range(8):
        tmux.keys(f"notice number {number}", "Enter")
        tmux.until(f"⚠ number {number}")  # lines that come together are a paste
    tmux.keys("typed while it is narrow")
    tmux.until("❯ typed while it is narrow")
    tmux.resize(20, 10)
    time.sleep(0.6)
    tmux.keys(" and wide")
    tmux.resize(80, 24)
    tmux.until("❯ typed while it is narrow and wide")
    assert tmux.settled().count("typed while") == 1
