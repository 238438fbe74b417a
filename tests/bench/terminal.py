"""Start programs in terminals of their own, and measure seconds until something appears there."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect

from tests.app.skills.folders import write_skill
from tests.bench.generator import LAST_WORD, MODEL
from tests.bench.histories import AGENT, History

PROMPT = "❯"
KEY = "¤"
"""A typed character that no program writes by itself."""
ROWS, COLUMNS = 30, 100
SKILLS = 30
"""Skills of a user who has many."""
CHECKOUT = Path(__file__).parents[2]
PATIENCE = 60
"""Seconds after which a missing output counts as an error."""

BARE = ("-m", "tests.bench.bare")
IKIGAI = ("-m", "ikigai", "-m", MODEL, "-r", AGENT)
"""The program's arguments; the agent has a name, because other rows leave other agents in the same database."""


class Terminal:
    """A program of this Python's, from its spawn until `close`. Times are seconds since the spawn."""

    def __init__(self, arguments: tuple[str, ...], environ: dict[str, str]) -> None:
        self._began = time.perf_counter()
        self._child = pexpect.spawn(
            sys.executable, [*arguments], timeout=PATIENCE, env=environ, cwd=CHECKOUT, dimensions=(ROWS, COLUMNS)
        )
        self._child.delaybeforesend = None
        self._seen = b""  # what came before that which was waited for last

    def until(self, text: str) -> float:
        """Return the time when `text` was written, behind the text of the wait before."""
        self._child.expect_exact(text.encode())
        self._seen = self._child.before
        return time.perf_counter() - self._began

    def until_prompt(self) -> float:
        """Return the time when the sign of the prompt was seen."""
        return self.until(PROMPT)

    def until_keys(self) -> float:
        """Return the time when a key typed now is echoed."""
        self._child.send(KEY)
        return self.until(KEY)

    def until_history(self) -> float:
        """Return the time when the last turn of a made-up history was on screen, also if that was before the last key's
        echo.
        """
        if LAST_WORD.encode() in self._seen:
            return time.perf_counter() - self._began
        return self.until(LAST_WORD)

    def type(self, text: str) -> None:
        """Press these keys."""
        self._child.send(text)

    def until_end(self) -> None:
        """Wait until the program has ended by itself, however long it takes."""
        self._child.expect(pexpect.EOF, timeout=None)
        self._child.close()
        assert self._child.exitstatus == 0, self._child.before

    def peak_memory(self) -> int:
        """Return the most memory that the program ever had resident, in bytes."""
        status = Path(f"/proc/{self._child.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def wait(self, seconds: float) -> None:
        """Let time go by while the program can write what it likes."""
        self._child.expect([pexpect.TIMEOUT], timeout=seconds)

    def close(self) -> None:
        """Leave by the keys for it: the line is cleared, then its end is told."""
        self._child.send("\x03\x04")
        self._child.expect(pexpect.EOF)
        self._child.close()


@contextmanager
def home(history: History | None = None, skills: int = 0) -> Iterator[dict[str, str]]:
    """Yield the environment of a user who has nothing but this history and so many skills."""
    with tempfile.TemporaryDirectory(prefix="ikigai-bench-") as folder:
        environ = {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        if history:
            environ["XDG_DATA_HOME"] = str(history.data_home)
        for number in range(skills):
            write_skill(Path(folder, ".agents/skills"), f"skill-{number}", body="Do it step by step.\n" * 100)
        yield environ


def sample(sides: list[Callable[[], tuple[float, ...]]], rounds: int) -> list[list[tuple[float, ...]]]:
    """Return the measurements of each side, `rounds` times, in turns; the first round, which fills caches, does not
    count.
    """
    taken: list[list[tuple[float, ...]]] = [[] for _ in sides]
    for number in range(rounds + 1):
        for side, found in zip(sides, taken, strict=True):
            measured = side()
            if number:
                found.append(measured)
    return taken
