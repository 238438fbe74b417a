"""Ask questions at the terminal; a signal ends them at once and leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import getpass
import os
import select
import signal
import sys
import termios
from collections.abc import Iterator
from types import FrameType

from ikigai.system.output import print_lines

SIGNAL_GRACE = 0.2
"""Seconds within which a signal ends a question.

A signal just before the wait for a key does not end that wait. Python handles it at the next event, which without a
ticking clock would be the next key.
"""

MAX_LINE_BYTES = 1 << 16
"""More bytes than a line that a terminal edits has."""
PASTE_PAUSE = 0.1
"""Seconds without a byte after which a paste has ended."""


def read_answer(question: str) -> str:
    """Return what the user types, without the spaces around it; "" at the end of the input."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (makes the line of `input` editable; what is typed outlives a tick of the clock)
    with interruptible():
        try:
            return input(question).strip()
        except EOFError:
            print_lines()
            return ""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let signals end the question at once, by an exception, so that the terminal shows typed text again."""

    def end(signum: int, _: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)  # one end is enough, and two exceptions are a mistake to Python
        raise SystemExit(128 + signum)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.signal(number, end) for number in numbers}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, SIGNAL_GRACE, SIGNAL_GRACE)
        yield
    except SystemExit:
        if sys.stdin.isatty():
            print_lines()  # what comes next begins a line
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def read_hidden(question: str) -> tuple[str, bool]:
    """Ask for a line on the terminal, which does not show it; return the line, and True if more was pasted behind it.

    The rest is read and dropped: the next program would show it. Raise EOFError at the end of input.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return getpass.getpass(question), False
    try:
        before = termios.tcgetattr(terminal)
        hidden = [*before]
        hidden[3] = before[3] & ~termios.ECHO
        try:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
            os.write(terminal, question.encode())
            line = os.read(terminal, MAX_LINE_BYTES)
            hidden[3] &= ~termios.ICANON  # a last line without its end can also be read
            termios.tcsetattr(terminal, termios.TCSANOW, hidden)
            rest = b""
            while select.select([terminal], [], [], PASTE_PAUSE)[0] and (more := os.read(terminal, MAX_LINE_BYTES)):
                rest += more
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")
    finally:
        os.close(terminal)
    if not line:
        raise EOFError
    return line.decode(errors="replace").rstrip("\r\n"), bool(rest.strip())
