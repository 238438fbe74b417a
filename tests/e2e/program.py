"""The real program in a real terminal: what a person would see, type and kill."""

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

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
"""Seconds to wait for something to appear: the machine may be busy with other tests."""
KEPT = ("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "TMPDIR")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A fresh user's environment: their own home, no key, no database, nothing of ours."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("PIP_")}
    return {**kept, "HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT), **more}


def command(*arguments: str, module: str = "ikigai") -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def run(home: Path, *arguments: str, input: str | None = "", **more: str) -> subprocess.CompletedProcess[str]:
    """The program without a terminal. `input` None closes standard input."""
    return subprocess.run(
        command(*arguments),
        input=input,
        env=environment(home, **more),
        capture_output=True,
        text=True,
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
        module: str = "ikigai",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = os.openpty()
        self.slave = slave
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(slave)
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.01)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.process = subprocess.Popen(
            command(*arguments, module=module),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(home, **(env or {})),
            cwd=home,
            start_new_session=True,
            preexec_fn=lambda: ioctl(slave, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        os.close(self._master)
        os.close(self.slave)

    def resize(self, columns: int, rows: int) -> None:
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "screen"):
            self.screen.resize(rows, columns)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def say(self, text: str) -> None:
        """Type a message and press Enter."""
        self.type(text)
        self.wait(lambda: text in "".join(self.lines()).replace("\n", ""), f"the echo of {text!r}")
        self.type("\r")

    def lines(self) -> list[str]:
        """What is on screen now."""
        return [line.rstrip() for line in self.screen.display]

    def scrollback(self) -> list[str]:
        """All lines, those that scrolled away first."""
        gone = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        return [line.rstrip() for line in (*gone, *self.screen.display)]

    def text(self) -> str:
        return "\n".join(self.scrollback())

    def pump(self, seconds: float) -> None:
        """Read what the program writes for so long, and answer its questions as a terminal would."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last process on the other side has gone
            return
        self.raw += data
        if b"\x1b[6n" in data:
            os.write(self._master, b"\x1b[%d;%dR" % (self.screen.cursor.y + 1, self.screen.cursor.x + 1))
        self._stream.feed(data)

    def wait(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.text()}"
            self.pump(0.05)

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        self.wait(lambda: text in self.text(), repr(text), seconds)

    def wait_ready(self) -> None:
        """Until the agent is open: the status line names the database."""
        self.wait(lambda: "embedded" in self.lines_at_bottom(), "the status line")

    def lines_at_bottom(self) -> str:
        return "\n".join([line for line in self.lines() if line][-2:])

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the program; its exit code, negative for a signal."""
        self.wait(lambda: self.process.poll() is not None, "the end of the program", seconds)
        for _ in range(5):
            self.pump(0.02)
        return self.process.returncode

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
