"""Run the real program in a real terminal, for tests to see, type and kill."""

import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from fcntl import ioctl
from pathlib import Path
from typing import Self

import pyte
from pyte.screens import Char

from ikigai.terminal.output.dialog import MIN_SEEN_SECONDS
from tests import ROOT
from tests.e2e import quick
from tests.support import starting
from tests.support.starting import Forked
from tests.terminal.alternate import Screen, is_dim
from tests.terminal.modes import ATTRIBUTES, ATTRIBUTES_QUERY, ENTER, MAX_FRAME_SECONDS, is_halfway, left_on

PATIENCE = 60.0
"""Seconds to wait for something to appear: the machine may be busy with other tests."""
KEPT = ("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "TMPDIR")


TOOLLESS = {"IKIGAI_TOOLS_ENABLED": "false", "IKIGAI_DEFAULT_SYSTEM_PROMPT": "false"}
"""Variables without tools and default system prompt: most tests are about the conversation, and tests of tools and of
the prompt, which grows with the name of the folder, switch them on.
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return a fresh user's environment: their own home, no key, no database, none of our variables."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("PIP_")}
    return {
        **kept,
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "IKIGAI_TERMINAL_FIND_SERVERS": "false",  # what else runs on this machine is no matter of a test
        **TOOLLESS,
        **more,
    }


def command(*arguments: str, module: str = "ikigai") -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def run(
    home: Path, *arguments: str, input: str = "", module: str = "ikigai", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the program without a terminal. Surrogates stand for bytes that are no UTF-8."""
    around = environment(home, **more)
    if starting.shareable(around):
        return starting.capture(module, arguments, input, around, home, 120)
    return subprocess.run(
        command(*arguments, module=module),
        input=input,
        env=around,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=120,
        cwd=home,
    )


class Program:
    """One run of the program in a terminal of `columns` × `rows`."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        module: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        keeps_output: bool = False,
    ) -> None:
        """Start it, by default as `starting.terminal_module`. With `keeps_output` Ctrl+C throws nothing away that the
        terminal has not shown yet.
        """
        module = module or starting.terminal_module
        self._seen_seconds = quick.SEEN_SECONDS if module == quick.__name__ else MIN_SEEN_SECONDS
        self._master, slave = os.openpty()
        if keeps_output:
            modes = termios.tcgetattr(slave)
            modes[3] |= termios.NOFLSH
            termios.tcsetattr(slave, termios.TCSANOW, modes)
        os.set_blocking(self._master, False)
        self.slave = slave
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(slave)
        self._unsent = home / ".local" / "state" / "ikigai"
        self.screen = Screen(columns, rows, history=10_000, ratio=0.01)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.attributes = ATTRIBUTES  # the answer of the terminal to the query
        self._text: str | None = None
        self._came = 0.0
        self.process = self._start(module, arguments, environment(home, **(env or {})), cwd or home)

    def _start(
        self, module: str, arguments: tuple[str, ...], env: dict[str, str], folder: Path
    ) -> "Forked | subprocess.Popen[bytes]":
        slave = self.slave
        if starting.shareable(env):
            return starting.start(module, arguments, (slave, slave, slave), env, folder, terminal=True)
        return subprocess.Popen(
            command(*arguments, module=module),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            cwd=folder,
            start_new_session=True,
            preexec_fn=lambda: self._at_home(slave),
        )

    @staticmethod
    def _at_home(slave: int) -> None:
        """Make the terminal the controlling one, so that Ctrl+C reaches the program in any test run."""
        ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        for descriptor in {self._master, self.slave} - {-1}:
            os.close(descriptor)

    def resize(self, columns: int, rows: int) -> None:
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "screen"):
            self.screen.resize(rows, columns)
        self._text = None

    def type(self, text: str | bytes) -> None:
        """Press keys; a long text goes in as fast as the program takes it, as in a terminal."""
        data = memoryview(text.encode() if isinstance(text, str) else text)
        while data:
            readable, writable, _ = select.select([self._master], [self._master], [], PATIENCE)
            assert readable or writable, f"the program takes no keys:\n{self.text()}"
            if readable:
                self.pump(0)
            if writable:
                data = data[os.write(self._master, data[:2048]) :]

    def say(self, text: str) -> None:
        """Type a message and press Enter: never a line of a paste, also where the program reads all at once."""
        self.type(text)
        self.wait(lambda: text in "".join(self.lines()).replace("\n", ""), f"the echo of {text!r}")
        self.type(ENTER)

    def keeps(self, *drafts: str) -> None:
        """Wait until these drafts of the input are in files, and no others."""

        def kept() -> bool:
            try:
                return [file.read_text() for file in sorted(self._unsent.glob("unsent-*"))] == [*drafts]
            except FileNotFoundError:  # it was taken away in between
                return False

        self.wait(kept, f"{drafts}")

    def paste(self, text: str | bytes) -> None:
        """Paste as terminals do where that is bracketed."""
        self.type(b"\x1b[200~" + (text.encode() if isinstance(text, str) else text) + b"\x1b[201~")

    def lines(self) -> list[str]:
        """Return the lines on screen now."""
        return [line.rstrip() for line in self.screen.display]

    def scrollback(self) -> list[str]:
        """Return all lines, those that scrolled away first."""
        return [line.rstrip() for line in (*self.screen.scrolled(), *self.screen.display)]

    def text(self) -> str:
        """Return all that is on screen or scrolled away, as lines. Tests look again and again while nothing comes."""
        if self._text is None:
            self._text = "\n".join(self.scrollback())
        return self._text

    def words(self) -> str:
        """Return all that is on screen or scrolled away, on one line."""
        return " ".join(self.text().split())

    def pump(self, seconds: float) -> bool:
        """Read the program's output for `seconds`, and answer its queries as a terminal would; return True if there was
        any.
        """
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last process on the other side has gone
            return False
        self.raw += data
        self._came = time.monotonic()
        if ATTRIBUTES_QUERY in data:  # else a start waits for the answer 0.1 s, and an end soon after it 0.2 s
            os.write(self._master, self.attributes)
        if b"\x1b[6n" in data:
            os.write(self._master, b"\x1b[%d;%dR" % (self.screen.cursor.y + 1, self.screen.cursor.x + 1))
        self._stream.feed(data)
        self._text = None
        return True

    def pass_time(self, seconds: float) -> None:
        """Read the program's output for all of `seconds`: `pump` ends with the first."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.pump(left)

    @property
    def halfway(self) -> bool:
        """Return True if the screen is in the middle of an update that terminals show as a whole."""
        return is_halfway(self.raw) and time.monotonic() - self._came < MAX_FRAME_SECONDS

    def let_read(self) -> None:
        """Let a question that is on screen be there for long enough to be answered."""
        self.pass_time(self._seen_seconds + 0.1)

    def wait(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while self.halfway or not true():
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.text()}\n{self.logged()}"
            self.pump(0.05)
            while self.pump(0) and time.monotonic() < deadline:  # a look costs more than a read
                pass

    def logged(self) -> str:
        """Return the end of the program's own log, for messages of failed tests."""
        file = self._unsent / "ikigai.log"
        return file.read_text(errors="replace")[-20_000:] if file.exists() else ""

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until `text` is there, wrapped or not."""
        self.wait(lambda: text in self.text() or text in self.words(), repr(text), seconds)

    def status(self) -> str:
        """Return the last row that is not empty: while nothing else is going on, the status line."""
        return next((line for line in reversed(self.lines()) if line), "")

    def ready(self) -> Self:
        """Wait until the agent is open: the status line tells its context, or that there is no model."""
        self.wait(lambda: " ctx " in self.status() or "no model" in self.status(), "the status line")
        return self

    def settled(self) -> None:
        """Wait until nothing is under way."""
        self.wait(lambda: not any("Esc stops" in line for line in self.lines()), "the end of the turn")

    def input(self) -> str:
        """Return the text in the input, on one line, without the suggestion behind it."""
        lines = self.lines()
        first = max((n for n, line in enumerate(lines) if line.startswith("❯")), default=len(lines))
        rows = [y for y in range(first, len(lines) - 1) if lines[y] and lines[y] != self.status()]
        return "".join("".join(cell.data for cell in self._row(y) if not is_dim(cell)).rstrip()[2:] for y in rows)

    def _row(self, y: int) -> list[Char]:
        return [self.screen.buffer[y][x] for x in range(self.screen.columns)]

    def wait_for_input(self, text: str) -> None:
        """Wait until this and nothing else stands in the input."""
        self.wait(lambda: self.input() == text, f"{text!r} in the input")

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the program; return its exit code, negative for a signal."""
        self.wait(lambda: self.process.poll() is not None, "the end of the program", seconds)
        while self.pump(0.02):
            pass
        return self.process.returncode

    def leave(self) -> None:
        """Leave by /exit when nothing is under way any more, and check that all is well."""
        self.settled()
        self.say("/exit")
        assert self.ended() == 0
        self.assert_restored()

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self.slave)
        os.close(self._master)
        self._master = self.slave = -1

    def assert_restored(self) -> None:
        """Check that the terminal is as before: its handling of keys, all its modes, the cursor in column 0."""
        assert termios.tcgetattr(self.slave) == self.modes
        assert left_on(self.raw) == {}
        assert self.screen.cursor.x == 0, self.text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
