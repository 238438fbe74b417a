"""This module asks questions at the terminal; a signal ends them at once and leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from ikigai.system.output import print_lines

SIGNAL_GRACE = 0.2
"""Seconds within which a signal ends a question.

A signal just before the wait for a key does not end that wait. Python handles it at the next event, which without a
ticking clock would be the next key.
"""


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
    """Let signals end the question at once, by an exception, so that the terminal shows again what is typed."""

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
