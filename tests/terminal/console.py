"""Run a program on a pseudo-terminal, with the screen it draws (pyte) and every byte it wrote."""

import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import Self

import pyte

from tests import ROOT
from tests.support import starting
from tests.terminal.alternate import Screen
from tests.terminal.modes import ATTRIBUTES, ATTRIBUTES_QUERY, MAX_FRAME_SECONDS, is_halfway, left_on

DEMO = [sys.executable, "-m", "tests.terminal.demo"]
STATUS = "amber-fox"

PASTE, END = b"\x1b[200~", b"\x1b[201~"


class Console:
    """A run of `argv` until the block is left; `log` holds the demo's callbacks."""

    answers = True
    """True if it tells the demo its attributes, as terminals do; otherwise starts and ends wait a moment for them."""

    def __init__(self, folder: Path, argv: list[str] = DEMO, size: tuple[int, int] = (80, 24), **environ: str) -> None:
        self.columns, self.rows = size
        self.screen = Screen(self.columns, self.rows, history=5000, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self._came = b"", 0.0
        self._log = folder / "log"
        self._status: int | None = None
        child = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TMUX", "TERM")}
        child |= {"TERM": "xterm-256color", "DEMO_LOG": str(self._log), "DEMO_PACE": "0.001", **environ}
        master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.fd, self.slave = master, slave
        self._forked = None
        shared = {key: value for key, value in child.items() if not key.startswith(starting.OF_THE_INTERPRETER)}
        if argv is DEMO and starting.shareable(shared := starting.USUAL | shared):
            self._forked = starting.start("tests.terminal.demo", (), (slave, slave, slave), shared, ROOT, terminal=True)
            self.pid = self._forked.pid
            return
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.closerange(3, 100)
            os.chdir(ROOT)
            os.execve(argv[0], argv, child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            if self._forked:
                self._forked.wait()
            else:
                os.waitpid(self.pid, 0)
        for fd in (self.fd, self.slave):
            if fd >= 0:
                os.close(fd)

    def send(self, keys: str | bytes) -> None:
        """Type `text`; a long one while reading the output, as terminals do."""
        data = memoryview(keys.encode() if isinstance(keys, str) else keys)
        while data:
            readable, writable, _ = select.select([self.fd], [self.fd], [], 5)
            if readable:
                self._read()
            if writable:
                data = data[os.write(self.fd, data[:2048]) :]

    def _read(self) -> bool:
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data
        self._came = time.monotonic()
        if self._forked and self.answers and ATTRIBUTES_QUERY in data:
            os.write(self.fd, ATTRIBUTES)
        self.stream.feed(data)
        return bool(data)

    def pump(self, seconds: float) -> None:
        """Read for `seconds`."""
        self.until(lambda: False, seconds, fail=False)

    @property
    def halfway(self) -> bool:
        """Return True if the screen is in the middle of a frame, the rest of which is to come soon."""
        return is_halfway(self.raw) and time.monotonic() - self._came < MAX_FRAME_SECONDS

    def until(self, wanted: str | Callable[[], object], seconds: float = 60, fail: bool = True) -> None:
        """Read until a text is on the screen, or a condition is true."""
        deadline = time.monotonic() + seconds
        while self.halfway or not (wanted in self.text if isinstance(wanted, str) else wanted()):
            left = deadline - time.monotonic()
            if left <= 0:
                assert not fail, f"{wanted!r} did not come; the screen:\n{self.text}\nlog: {self.log}"
                return
            if select.select([self.fd], [], [], min(left, 0.05))[0] and not self._read():
                time.sleep(0.01)

    def ready(self) -> Self:
        """Wait for the prompt and the rows right after it."""
        self.until(lambda: self.told("ready") and (STATUS in self.text or self.columns <= 40))
        return self

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.screen.resize(rows, columns)
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n")

    @property
    def history(self) -> str:
        """Return everything from the first line to the last, the scrollback included."""
        return "\n".join([*(row.rstrip() for row in self.screen.scrolled()), self.text])

    @property
    def prompt(self) -> str:
        """Return the text of the input, from the last ❯ down to the status line; "?" without a prompt."""
        start = max((index for index, line in enumerate(self.lines) if line.startswith("❯")), default=None)
        if start is None:
            return "?"
        rows = [line[2:] for line in self.lines[start:]]
        return "\n".join(rows[: next((n for n, row in enumerate(rows) if STATUS in row), len(rows))])

    @property
    def log(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def told(self, what: str) -> list[dict[str, object]]:
        return [line for line in self.log if line["what"] == what]

    @property
    def sent(self) -> list[object]:
        return [line["text"] for line in self.told("submit")]

    def ended(self, seconds: float = 60) -> int:
        """Wait for the program to end; return its exit code, negative for a signal."""

        def over() -> bool:
            if self._forked:
                self._status = self._forked.poll()
            elif (gone := os.waitpid(self.pid, os.WNOHANG))[0]:
                self._status = os.waitstatus_to_exitcode(gone[1])
            return self._status is not None

        self.until(over, seconds)
        self.pump(0.05)
        assert self._status is not None
        return self._status

    def modes(self) -> dict[str, str]:
        """Return the private modes as the program set them last: number → h or l."""
        return {number.decode(): state.decode() for number, state in re.findall(rb"\x1b\[\?(\d+)([hl])", self.raw)}

    def assert_restored(self) -> None:
        """Assert that the terminal is as it was before the program began."""
        assert termios.tcgetattr(self.slave) == self.before
        assert left_on(self.raw) == {}
        assert self.screen.cursor.x == 0
